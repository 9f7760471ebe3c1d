//! Maps with the types of their keys and values.

use std::{collections::BTreeMap, marker::PhantomData, net::IpAddr, ops::Range, sync::Arc};

use anyhow::{anyhow, ensure};
use aya::Pod;
use ratelimit_common::{Address as _, Ipv4, Ipv6, compact::SLOTS, refused::WAYS};
use ratelimit_core::{api::MapStatus, ip_family::IpAddress as _};

use super::{
    Result,
    backend::Backend,
    batch::{self, bytes_of, bytes_of_mut, zeroed},
    kernel::KernelMap,
    map_errors::{unreadable, unwritable},
    mapped::Mapped,
};
use crate::loader::{self, Descriptors, REFUSED_MAPS, TABLES};

/// Maps by name, to be opened with a type.
pub struct Maps(BTreeMap<String, Arc<dyn Backend>>);

impl TryFrom<Descriptors> for Maps {
    type Error = anyhow::Error;

    fn try_from(descriptors: Descriptors) -> anyhow::Result<Self> {
        let open = |(name, descriptor)| {
            let map: Arc<dyn Backend> = Arc::new(KernelMap::new(descriptor)?);
            Ok((name, map))
        };
        descriptors.into_iter().map(open).collect()
    }
}

impl Maps {
    /// Opens an array.
    pub fn array<T: Pod>(&self, name: &'static str) -> anyhow::Result<Array<T>> {
        Ok(Array(self.hash_map(name)?))
    }

    /// Opens an array with a value for each CPU.
    pub fn per_cpu_array<T: Pod>(&self, name: &'static str) -> anyhow::Result<PerCpuArray<T>> {
        let map = self.open(name)?;
        let cpus = map.size().value_bytes / size_of::<T>();
        ensure!(
            map.size().value_bytes == cpus * size_of::<T>(),
            "{name} has other values"
        );
        Ok(PerCpuArray {
            name,
            map,
            cpus,
            types: PhantomData,
        })
    }

    /// Opens a hash map.
    pub fn hash_map<K: Pod, V: Pod>(&self, name: &'static str) -> anyhow::Result<HashMap<K, V>> {
        let map = self.open(name)?;
        let (size, own) = (map.size(), (size_of::<K>(), size_of::<V>()));
        ensure!(
            (size.key_bytes, size.value_bytes) == own,
            "{name} has other keys or values: {size:?}, not {own:?}"
        );
        Ok(HashMap {
            name,
            map,
            types: PhantomData,
        })
    }

    /// Opens the hash maps of both families.
    pub fn by_source<V: Pod>(&self, [v4, v6]: [&'static str; 2]) -> anyhow::Result<BySource<V>> {
        Ok(BySource {
            v4: self.hash_map(v4)?,
            v6: self.hash_map(v6)?,
        })
    }

    /// Returns a map, which may have other owners.
    pub fn open(&self, name: &str) -> anyhow::Result<Arc<dyn Backend>> {
        let map = self.0.get(name).cloned();
        map.ok_or_else(|| anyhow!("the loader gave no map {name}"))
    }

    /// Returns the maps that another one replaces, opened with `open`.
    pub fn replaced<T>(
        &self,
        name: &str,
        open: impl Fn(Arc<dyn Backend>) -> anyhow::Result<T>,
    ) -> anyhow::Result<Vec<T>> {
        let names = loader::replaced_names(name);
        let given = names.iter().filter_map(|name| self.0.get(name));
        given.map(|map| open(Arc::clone(map))).collect()
    }

    /// Returns two empty maps of the same kind, with room for one element and two.
    pub fn samples(&self, name: &str) -> anyhow::Result<[Arc<dyn Backend>; 2]> {
        let [one, two] = loader::samples(name);
        Ok([self.open(&one)?, self.open(&two)?])
    }

    /// Returns the sizes of the maps.
    pub fn statuses(&self) -> anyhow::Result<Vec<MapStatus>> {
        let tables = self.0.iter().filter(|(name, _)| loader::is_shared(name));
        tables.map(|(name, map)| status(name, &**map)).collect()
    }
}

impl FromIterator<(String, Arc<dyn Backend>)> for Maps {
    fn from_iter<I: IntoIterator<Item = (String, Arc<dyn Backend>)>>(maps: I) -> Self {
        Self(maps.into_iter().collect())
    }
}

/// An array with its name, for errors.
pub struct Array<T: Pod>(HashMap<u32, T>);

impl<T: Pod> Array<T> {
    pub fn get(&self, index: u32) -> Result<T> {
        // Every element of an array exists.
        Ok(self.0.get(index)?.unwrap_or_else(zeroed))
    }

    pub fn set(&self, index: u32, value: T) -> Result<()> {
        self.0.set(index, value)
    }

    /// Replaces the elements at some indices. If it fails, some of them were written.
    pub fn set_some(&self, indices: &[u32], values: &[T]) -> Result<()>
    where
        T: Sync,
    {
        self.0.set_all(indices, values)
    }

    /// Returns the elements in a range of indices.
    pub fn some(&self, indices: Range<u32>) -> Result<Vec<T>> {
        batch::range(&*self.0.map, indices, 1).map_err(unreadable(self.0.name))
    }

    pub fn all(&self) -> Result<Vec<T>> {
        self.some(0..self.len())
    }

    pub fn len(&self) -> u32 {
        self.0.map.size().capacity
    }

    /// Maps some of its words into the memory of this process.
    pub fn map_words(&self, words: Range<usize>) -> Result<Mapped> {
        let mapped = self.0.map.map_words(words);
        mapped.map_err(unreadable(self.0.name))
    }
}

/// An array with a value for each CPU, which may be counted.
pub struct PerCpuArray<T: Pod> {
    name: &'static str,
    map: Arc<dyn Backend>,
    cpus: usize,
    types: PhantomData<T>,
}

impl<T: Pod> PerCpuArray<T> {
    /// Returns the values of all CPUs.
    pub fn get(&self, index: u32) -> Result<Vec<T>> {
        let mut values = vec![zeroed(); self.cpus];
        let bytes = bytes_of_mut(&mut values);
        let answer = self.map.lookup(bytes_of(&[index]), bytes);
        answer.map_err(unreadable(self.name)).map(|_| values)
    }

    pub fn set(&self, index: u32, values: &[T]) -> Result<()> {
        let answer = self.map.update(bytes_of(&[index]), bytes_of(values), false);
        answer.map_err(unwritable(self.name, &*self.map))
    }

    /// Returns the sums over all CPUs of the values in a range of indices (kernel 5.13, commit
    /// f008d732ab18).
    pub fn sums(&self, indices: Range<u32>, add: impl Fn(T, T) -> T) -> Result<Vec<T>> {
        let values = batch::range(&*self.map, indices, self.cpus);
        let values: Vec<T> = values.map_err(unreadable(self.name))?;
        let sum = |own: &[T]| own.iter().copied().fold(zeroed(), &add);
        Ok(values.chunks_exact(self.cpus).map(sum).collect())
    }
}

/// A hash map with its name, for errors.
pub struct HashMap<K: Pod, V: Pod> {
    pub name: &'static str,
    pub map: Arc<dyn Backend>,
    types: PhantomData<(K, V)>,
}

impl<K: Pod, V: Pod> HashMap<K, V> {
    pub fn get(&self, key: K) -> Result<Option<V>> {
        let mut value = zeroed::<V>();
        let bytes = bytes_of_mut(std::slice::from_mut(&mut value));
        let is_there = self.map.lookup(bytes_of(&[key]), bytes);
        let is_there = is_there.map_err(unreadable(self.name))?;
        Ok(is_there.then_some(value))
    }

    pub fn set(&self, key: K, value: V) -> Result<()> {
        let answer = self.map.update(bytes_of(&[key]), bytes_of(&[value]), false);
        answer.map_err(unwritable(self.name, &*self.map))
    }

    /// Inserts an element, unless there is one with this key.
    pub fn insert(&self, key: K, value: V) -> Result<()> {
        match self.map.update(bytes_of(&[key]), bytes_of(&[value]), true) {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
            answer => answer.map_err(unwritable(self.name, &*self.map)),
        }
    }

    /// Removes an element, and returns its value atomically.
    pub fn take(&self, key: K) -> Result<Option<V>> {
        let mut value = zeroed::<V>();
        let bytes = bytes_of_mut(std::slice::from_mut(&mut value));
        let is_taken = self.map.take(bytes_of(&[key]), bytes);
        let is_taken = is_taken.map_err(unwritable(self.name, &*self.map))?;
        Ok(is_taken.then_some(value))
    }

    /// Inserts or replaces elements. If it fails, some of them were written.
    pub fn set_all(&self, keys: &[K], values: &[V]) -> Result<()>
    where
        K: Sync,
        V: Sync,
    {
        let answer = batch::update(&*self.map, keys, values);
        answer.map_err(unwritable(self.name, &*self.map))
    }

    /// Removes elements; missing ones are skipped. If it fails, some of them were removed.
    pub fn remove_all(&self, keys: &[K]) -> Result<()> {
        let answer = self.map.delete_batch(bytes_of(keys));
        answer.map_err(unwritable(self.name, &*self.map))
    }

    pub fn for_each(&self, visit: impl FnMut(K, V)) -> Result<()> {
        batch::for_each(&*self.map, visit).map_err(unreadable(self.name))
    }

    /// Returns its name and number of entries. This scans the map.
    pub fn count(&self) -> Result<(&'static str, u64)> {
        let mut entries = 0;
        self.for_each(|_, _| entries += 1)?;
        Ok((self.name, entries))
    }

    pub fn all(&self) -> Result<Vec<(K, V)>> {
        let mut all = Vec::new();
        self.for_each(|key, value| all.push((key, value)))?;
        Ok(all)
    }
}

/// The hash maps of both families with sources as keys.
pub struct BySource<V: Pod> {
    pub v4: HashMap<Ipv4, V>,
    pub v6: HashMap<Ipv6, V>,
}

impl<V: Pod> BySource<V> {
    pub fn get(&self, source: IpAddr) -> Result<Option<V>> {
        match source {
            IpAddr::V4(source) => self.v4.get(source.into()),
            IpAddr::V6(source) => self.v6.get(source.into()),
        }
    }

    pub fn for_each(&self, mut visit: impl FnMut(IpAddr, V)) -> Result<()> {
        self.v4
            .for_each(|source, value| visit(source.to_std(), value))?;
        self.v6
            .for_each(|source, value| visit(source.to_std(), value))
    }
}

fn status(name: &str, map: &dyn Backend) -> anyhow::Result<MapStatus> {
    let of_element = match name {
        _ if TABLES.contains(&name) => u32::try_from(SLOTS)?,
        _ if REFUSED_MAPS.contains(&name) => u32::try_from(WAYS)?,
        "FILTER_V4" => Ipv4::LEVELS.words(),
        _ => 1,
    };
    Ok(MapStatus {
        name: name.to_owned(),
        entries: None,
        capacity: map.size().capacity * of_element,
        memory_bytes: map.memory_bytes().unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use std::io;

    use ratelimit_core::config::SourceConfig;

    use super::{super::Memory, *};

    #[test]
    fn a_full_map_is_distinguished_from_other_failures() {
        let memory = Memory::new(&SourceConfig::default(), None).unwrap();
        memory.switches().capacity.insert("STRIKES_V4", 7);
        let map = memory.maps().hash_map::<Ipv4, u64>("STRIKES_V4").unwrap();
        let set = |host| map.set(Ipv4::new([192, 0, 2, host]), 1);
        (1..=7).for_each(|host| set(host).unwrap());
        let error = set(8).unwrap_err().to_string();
        assert_eq!(error, "the map STRIKES_V4 is full: it holds 7 entries");
        let error = unwritable(map.name, &*map.map)(io::Error::from_raw_os_error(libc::EPERM));
        assert_eq!(error.to_string(), "writing the map STRIKES_V4");
    }
}
