//! Maps of bytes in memory, for tests of the control plane.

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    mem::MaybeUninit,
    ops::{Bound, Range},
    os::{fd::AsFd, unix::fs::FileExt},
    slice,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, atomic::Ordering::Relaxed},
};

use aya::Pod;
use aya_obj::{
    Object,
    generated::bpf_map_type::{
        self, BPF_MAP_TYPE_ARRAY, BPF_MAP_TYPE_HASH, BPF_MAP_TYPE_LRU_HASH,
        BPF_MAP_TYPE_PERCPU_ARRAY,
    },
};
use ratelimit_common::{
    algorithm::sliding_log::TIMES_MAX, features::Features, generation::ByGeneration,
    limit::LIMITS_MAX,
};
use ratelimit_core::{
    config::{Interface, SourceConfig},
    log_size::LogSize,
};
use ratelimit_interface::{AttachMode, InterfaceState};
use rustix::fs::{MemfdFlags, memfd_create};

use super::{
    Attachments, Datapath, Result, Tables,
    backend::{Backend, MapSize, Read},
    batch::{bytes_of, bytes_of_mut, zeroed},
    mapped::Mapped,
    maps::Maps,
    programs::InterfaceRules,
};
use crate::{
    cpus,
    links::{Running, Sight},
    loader::{self, MapPlan, Sizes},
};

/// The maps and the program of a host.
pub struct Memory {
    plan: Mutex<MapPlan>,
    maps: Mutex<BTreeMap<String, Arc<MemoryMap>>>,
    /// The arrays, each at an offset, so that they can be mapped.
    arrays: Arc<File>,
    switches: Arc<Mutex<Switches>>,
}

/// The switches of a test, and its view of what was done.
#[derive(Default)]
pub struct Switches {
    /// The writes, in order.
    pub writes: Vec<Write>,
    /// The most elements of a map, if it is smaller than its declaration.
    pub capacity: BTreeMap<&'static str, u32>,
    /// The number of elements of a map beyond which additions fail.
    pub room: BTreeMap<&'static str, usize>,
    /// The number of writes to a map that succeed before they fail.
    pub writes_left: BTreeMap<&'static str, usize>,
    /// An action before the next read of a map.
    pub before_read: Option<(&'static str, Action)>,
    /// Whether the memory of maps is unknown, as in kernels before 6.4.
    pub hides_memory: bool,
    /// Whether the program was attached.
    pub runs: bool,
    /// The features of the program.
    pub features: Features,
    /// The features for which running programs were replaced, in order.
    pub specialised: Vec<Features>,
    /// Missing interfaces; the program runs on all others.
    pub missing: Vec<String>,
    /// The rules of interfaces.
    pub rules: ByGeneration<InterfaceRules>,
}

/// An action of a test.
pub type Action = Box<dyn FnOnce() + Send>;

/// A write to the maps.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Keys of a map get values.
    Update(String, Vec<u8>, Vec<u8>),
    /// Keys of a map are removed.
    Delete(String, Vec<u8>),
    /// Words of an array are mapped, perhaps to be written.
    Mapped(String, Range<usize>),
    /// The rules of interfaces are replaced.
    Rules(ByGeneration<InterfaceRules>),
    /// The program is attached to an interface.
    Attached,
}

impl Write {
    /// Returns the keys of a map with their new values.
    pub fn elements<K: Pod, V: Pod>(&self, of: &str) -> Vec<(K, Option<V>)> {
        let (map, keys, values) = match self {
            Self::Update(map, keys, values) => (map, keys, Some(values)),
            Self::Delete(map, keys) => (map, keys, None),
            Self::Mapped(..) | Self::Rules(_) | Self::Attached => return Vec::new(),
        };
        if map != of {
            return Vec::new();
        }
        let mut values = values.map(|values| values.chunks_exact(size_of::<V>()));
        let keys = keys.chunks_exact(size_of::<K>());
        keys.map(|key| {
            (
                value(key),
                values.as_mut().and_then(Iterator::next).map(value),
            )
        })
        .collect()
    }
}

fn value<T: Pod>(bytes: &[u8]) -> T {
    let mut value = zeroed::<T>();
    bytes_of_mut(slice::from_mut(&mut value)).copy_from_slice(bytes);
    value
}

impl Memory {
    /// Creates maps for a configuration, with room for any policy, and with this number of sets in
    /// the `compact` table if that is the store.
    pub fn new(config: &SourceConfig, sets: Option<u32>) -> anyhow::Result<Arc<Self>> {
        let logs = LogSize {
            times: TIMES_MAX,
            logs: config.logs,
        };
        let words = u32::try_from(LIMITS_MAX)?;
        let plan = MapPlan {
            ipv4_prefix: config.ipv4_prefix,
            ipv6_prefix: config.ipv6_prefix,
            capacity: config.capacity,
            sizes: Sizes { logs, sets, words },
            cpus: cpus::possible()?,
        };
        let memory = Self {
            plan: Mutex::new(plan),
            maps: Mutex::default(),
            arrays: Arc::new(File::from(memfd_create("arrays", MemfdFlags::CLOEXEC)?)),
            switches: Arc::default(),
        };
        memory.create(&plan)?;
        Ok(Arc::new(memory))
    }

    /// Returns the switches.
    pub fn switches(&self) -> MutexGuard<'_, Switches> {
        locked(&self.switches)
    }

    /// Opens the datapath, as a daemon does that starts.
    pub fn open(self: &Arc<Self>) -> anyhow::Result<Datapath> {
        let plan = self.plan();
        Ok(Datapath {
            tables: Tables::open(&self.create(&plan)?, plan.sizes.sets)?,
            programs: Box::new(Arc::clone(self)),
            is_outgrown: false,
        })
    }

    /// Returns the sizes of the maps.
    pub fn plan(&self) -> MapPlan {
        *locked(&self.plan)
    }

    /// Returns the maps, to be opened with a type.
    pub fn maps(&self) -> Maps {
        let maps = locked(&self.maps);
        let maps = maps.iter();
        maps.map(|(name, map)| (name.clone(), Arc::clone(map) as Arc<dyn Backend>))
            .collect()
    }

    /// Returns the words of an array.
    pub fn words(&self, name: &str) -> anyhow::Result<Vec<u64>> {
        let map = self.maps().open(name)?;
        let words = map.size().capacity as usize * map.size().stride() / 8;
        let mapped = map.map_words(0..words)?;
        Ok(mapped
            .words()
            .iter()
            .map(|word| word.load(Relaxed))
            .collect())
    }

    /// Forgets everything, as a machine does that starts.
    pub fn reboot(&self) -> anyhow::Result<()> {
        locked(&self.maps).clear();
        *self.switches() = Switches::default();
        self.create(&self.plan()).map(drop)
    }

    /// Creates the maps of a plan that do not fit, and returns all.
    fn create(&self, plan: &MapPlan) -> anyhow::Result<Maps> {
        static PARSED: OnceLock<Object> = OnceLock::new();
        let parsed = PARSED.get_or_init(|| Object::parse(&loader::OBJECT).expect("it is valid"));
        let mut object = parsed.clone();
        loader::resize(&mut object, plan)?;
        *locked(&self.plan) = *plan;
        let mut maps = locked(&self.maps);
        for (name, map) in &object.maps {
            let mut size = MapSize {
                key_bytes: map.key_size() as usize,
                value_bytes: map.value_size() as usize,
                capacity: map.max_entries(),
            };
            let kind = map.map_type();
            let is = |kinds: &[bpf_map_type]| kinds.iter().any(|own| *own as u32 == kind);
            if is(&[BPF_MAP_TYPE_PERCPU_ARRAY]) {
                size.value_bytes = size.value_bytes.next_multiple_of(8) * plan.cpus as usize;
            }
            let is_hash = is(&[BPF_MAP_TYPE_HASH, BPF_MAP_TYPE_LRU_HASH]);
            if !is_hash && !is(&[BPF_MAP_TYPE_ARRAY, BPF_MAP_TYPE_PERCPU_ARRAY]) {
                continue;
            }
            let held = maps.get(name);
            if held.is_none_or(|held| held.declared != size) {
                let new = self.map(name, is_hash, size)?;
                let held = maps.insert(name.clone(), new);
                let held = held.filter(|it| it.declared.capacity == size.capacity);
                let [replaced, ..] = loader::replaced_names(name);
                maps.extend(held.map(|held| (replaced, held)));
            }
            if loader::SAMPLED.contains(&name.as_str()) {
                for (name, capacity) in loader::samples(name).into_iter().zip(1..) {
                    let new = self.map(&name, true, MapSize { capacity, ..size })?;
                    maps.insert(name, new);
                }
            }
        }
        drop(maps);
        Ok(self.maps())
    }

    fn map(&self, name: &str, is_hash: bool, size: MapSize) -> io::Result<Arc<MemoryMap>> {
        /// At least a page.
        const ALIGNMENT: u64 = 1 << 16;
        let elements = if is_hash {
            Elements::Hash(Mutex::default())
        } else {
            let start = self.arrays.metadata()?.len();
            let bytes = u64::from(size.capacity) * size.stride() as u64;
            self.arrays
                .set_len(start + bytes.next_multiple_of(ALIGNMENT))?;
            Elements::Array(Arc::clone(&self.arrays), start)
        };
        Ok(Arc::new(MemoryMap {
            name: name.to_owned(),
            declared: size,
            elements,
            switches: Arc::clone(&self.switches),
        }))
    }
}

impl MapSize {
    /// The bytes from one value of an array to the next. Those of the kernel are whole words, which
    /// matters where arrays are mapped, and smaller values are not.
    const fn stride(self) -> usize {
        if self.value_bytes < 8 {
            self.value_bytes
        } else {
            self.value_bytes.next_multiple_of(8)
        }
    }
}

/// A map by its bytes.
struct MemoryMap {
    name: String,
    declared: MapSize,
    elements: Elements,
    switches: Arc<Mutex<Switches>>,
}

enum Elements {
    Hash(Mutex<BTreeMap<Vec<u8>, Vec<u8>>>),
    /// The values, from an offset in a file.
    Array(Arc<File>, u64),
}

impl MemoryMap {
    /// Runs the action of the test before a read.
    fn begin_read(&self) {
        let mut switches = locked(&self.switches);
        let action = switches.before_read.take_if(|(map, _)| *map == self.name);
        drop(switches);
        if let Some((_, action)) = action {
            action();
        }
    }

    /// The offset of an element of an array; `None` if there is no such element.
    fn offset(&self, start: u64, key: &[u8]) -> Option<u64> {
        let index = u32::from_ne_bytes(key.try_into().ok()?);
        let stride = self.declared.stride() as u64;
        (index < self.declared.capacity).then_some(start + u64::from(index) * stride)
    }

    fn record(&self, write: Write) {
        locked(&self.switches).writes.push(write);
    }

    fn insert(&self, key: &[u8], value: &[u8], is_new: bool) -> io::Result<()> {
        let full = || io::Error::from_raw_os_error(libc::E2BIG);
        let mut capacity = self.size().capacity as usize;
        let mut switches = locked(&self.switches);
        let name = self.name.as_str();
        if let Some(left) = switches.writes_left.get_mut(name) {
            *left = left.checked_sub(1).ok_or_else(full)?;
        }
        if let Some(room) = switches.room.get(name) {
            capacity = capacity.min(*room);
        }
        match &self.elements {
            Elements::Hash(elements) => {
                let mut elements = locked(elements);
                let is_there = elements.contains_key(key);
                if is_there && is_new {
                    return Err(io::Error::from_raw_os_error(libc::EEXIST));
                }
                if !is_there && elements.len() >= capacity {
                    return Err(full());
                }
                elements.insert(key.to_vec(), value.to_vec());
                Ok(())
            }
            Elements::Array(file, start) => {
                let offset = self.offset(*start, key).ok_or_else(full)?;
                file.write_all_at(value, offset)
            }
        }
    }

    fn remove(&self, key: &[u8]) -> Option<Vec<u8>> {
        match &self.elements {
            Elements::Hash(elements) => locked(elements).remove(key),
            Elements::Array(..) => None,
        }
    }
}

// SAFETY: as many elements are counted as were copied.
unsafe impl Backend for MemoryMap {
    fn size(&self) -> MapSize {
        let switches = locked(&self.switches);
        let capacity = switches.capacity.get(self.name.as_str()).copied();
        MapSize {
            capacity: capacity.unwrap_or(self.declared.capacity),
            ..self.declared
        }
    }

    fn memory_bytes(&self) -> Option<u64> {
        let MapSize {
            key_bytes,
            value_bytes,
            capacity,
        } = self.declared;
        let elements = match &self.elements {
            Elements::Hash(elements) => locked(elements).len(),
            Elements::Array(..) => capacity as usize,
        };
        let bytes = elements * (key_bytes + value_bytes);
        (!locked(&self.switches).hides_memory).then_some(bytes as u64)
    }

    fn lookup(&self, key: &[u8], value: &mut [u8]) -> io::Result<bool> {
        self.begin_read();
        match &self.elements {
            Elements::Hash(elements) => {
                let elements = locked(elements);
                let held = elements.get(key);
                held.inspect(|held| value.copy_from_slice(held));
                Ok(held.is_some())
            }
            Elements::Array(file, start) => match self.offset(*start, key) {
                Some(offset) => file.read_exact_at(value, offset).map(|()| true),
                None => Ok(false),
            },
        }
    }

    fn update(&self, key: &[u8], value: &[u8], is_new: bool) -> io::Result<()> {
        self.insert(key, value, is_new)?;
        self.record(Write::Update(
            self.name.clone(),
            key.to_vec(),
            value.to_vec(),
        ));
        Ok(())
    }

    fn take(&self, key: &[u8], value: &mut [u8]) -> io::Result<bool> {
        let taken = self.remove(key);
        self.record(Write::Delete(self.name.clone(), key.to_vec()));
        let taken = taken.inspect(|held| value.copy_from_slice(held));
        Ok(taken.is_some())
    }

    fn read_batch(
        &self,
        place: Option<&[u8]>,
        next: &mut [u8],
        keys: &mut [MaybeUninit<u8>],
        values: &mut [MaybeUninit<u8>],
    ) -> io::Result<Read> {
        self.begin_read();
        let (key_bytes, value_bytes) = (self.declared.key_bytes, self.declared.value_bytes);
        let place = place.map(|place| &place[..key_bytes]);
        match &self.elements {
            Elements::Hash(elements) => {
                let after = place.map_or(Bound::Unbounded, Bound::Excluded);
                let elements = locked(elements);
                let mut elements = elements.range::<[u8], _>((after, Bound::Unbounded));
                let room = keys.chunks_exact_mut(key_bytes);
                let room = room.zip(values.chunks_exact_mut(value_bytes));
                let mut count = 0;
                for ((own_key, own_value), (key, value)) in room.zip(elements.by_ref()) {
                    own_key.write_copy_of_slice(key);
                    own_value.write_copy_of_slice(value);
                    next[..key_bytes].copy_from_slice(key);
                    count += 1;
                }
                let is_last = elements.next().is_none();
                Ok(Read { count, is_last })
            }
            Elements::Array(file, start) => {
                let before = place.map(|place| u32::from_ne_bytes(place.try_into().expect("4")));
                let first = before.map_or(0, |before| before + 1);
                let room = u32::try_from(keys.len() / key_bytes).unwrap_or(u32::MAX);
                let last = self.declared.capacity.min(first.saturating_add(room));
                let stride = self.declared.stride();
                let mut bytes = vec![0; (last - first) as usize * stride];
                file.read_exact_at(&mut bytes, start + u64::from(first) * stride as u64)?;
                if stride == value_bytes {
                    values[..bytes.len()].write_copy_of_slice(&bytes);
                } else {
                    let values = values.chunks_exact_mut(value_bytes);
                    for (value, from) in values.zip(bytes.chunks_exact(stride)) {
                        value.write_copy_of_slice(&from[..value_bytes]);
                    }
                }
                let indices: Vec<u32> = (first..last).collect();
                keys[..4 * indices.len()].write_copy_of_slice(bytes_of(&indices));
                if let Some(last) = indices.last() {
                    next[..key_bytes].copy_from_slice(&last.to_ne_bytes());
                }
                Ok(Read {
                    count: indices.len(),
                    is_last: last == self.declared.capacity,
                })
            }
        }
    }

    fn update_batch(&self, keys: &[u8], values: &[u8]) -> io::Result<()> {
        let (key_bytes, value_bytes) = (self.declared.key_bytes, self.declared.value_bytes);
        let elements = keys.chunks_exact(key_bytes);
        let mut elements = elements.zip(values.chunks_exact(value_bytes));
        let mut count = 0;
        let answer = elements.try_for_each(|(key, value)| {
            self.insert(key, value, false)?;
            count += 1;
            Ok(())
        });
        let (keys, values) = (&keys[..count * key_bytes], &values[..count * value_bytes]);
        self.record(Write::Update(
            self.name.clone(),
            keys.to_vec(),
            values.to_vec(),
        ));
        answer
    }

    fn delete_batch(&self, keys: &[u8]) -> io::Result<()> {
        for key in keys.chunks_exact(self.declared.key_bytes) {
            self.remove(key);
        }
        self.record(Write::Delete(self.name.clone(), keys.to_vec()));
        Ok(())
    }

    fn map_words(&self, words: Range<usize>) -> io::Result<Mapped> {
        self.begin_read();
        let Elements::Array(file, start) = &self.elements else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        self.record(Write::Mapped(self.name.clone(), words.clone()));
        let first = usize::try_from(*start / 8).map_err(io::Error::other)?;
        Mapped::part(file.as_fd(), first + words.start..first + words.end)
    }
}

impl Attachments for Arc<Memory> {
    fn open_maps(&mut self, plan: &MapPlan) -> anyhow::Result<Maps> {
        self.create(plan)
    }

    fn forget_replaced(&mut self) -> anyhow::Result<()> {
        locked(&self.maps).retain(|name, _| !name.contains(".replaced."));
        Ok(())
    }

    fn wait_for_packets(&self) {}

    fn set_rules(&mut self, rules: ByGeneration<InterfaceRules>) -> Result<()> {
        let mut switches = self.switches();
        switches.rules = rules.clone();
        switches.writes.push(Write::Rules(rules));
        Ok(())
    }

    fn rules(&self) -> Result<ByGeneration<InterfaceRules>> {
        Ok(self.switches().rules.clone())
    }

    fn slots(&self) -> Vec<(u32, String)> {
        vec![(0, "eth0".to_owned())]
    }

    fn runs(&self) -> bool {
        self.switches().runs
    }

    fn look(&mut self, interface: &str) -> anyhow::Result<Sight> {
        if self.switches().missing.iter().any(|name| name == interface) {
            return Ok(Sight::default());
        }
        let state = InterfaceState {
            index: 1,
            name: interface.to_owned(),
            program: Some((AttachMode::Native, 1)),
            ..InterfaceState::default()
        };
        Ok(Sight {
            there: Some(state.clone()),
            program: Some(Running {
                on: Some(state),
                is_behind_another: false,
                takes_long_frames: true,
                next: None,
                entry: None,
                is_behind: false,
            }),
        })
    }

    fn follow(&mut self, _: &[Interface]) -> anyhow::Result<BTreeMap<String, String>> {
        Ok(BTreeMap::new())
    }

    fn prepare(&mut self, _: &Interface) -> anyhow::Result<()> {
        Ok(())
    }

    fn attach(&mut self, _: &Interface) -> anyhow::Result<Option<String>> {
        let mut switches = self.switches();
        switches.runs = true;
        switches.writes.push(Write::Attached);
        Ok(None)
    }

    fn replace(&mut self, _: &[Interface]) -> anyhow::Result<()> {
        Ok(())
    }

    fn features(&self) -> Features {
        self.switches().features
    }

    fn specialise(&mut self, features: Features) -> anyhow::Result<()> {
        let mut switches = self.switches();
        switches.features = features;
        switches.specialised.push(features);
        Ok(())
    }

    fn set_features(&mut self, features: Features) {
        self.switches().features = features;
    }

    fn take_off(&mut self, _: &str) -> anyhow::Result<()> {
        Ok(())
    }

    fn keep_only(&mut self, _: &[Interface]) -> anyhow::Result<()> {
        Ok(())
    }

    fn keep_pinned(&mut self) -> anyhow::Result<bool> {
        Ok(false)
    }

    fn stale_next(&mut self) -> anyhow::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn detach(&mut self) -> anyhow::Result<Vec<String>> {
        Ok(Vec::new())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
