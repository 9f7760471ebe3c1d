//! Reads and writes many elements of a map at once.

use std::{io, mem::MaybeUninit, num::NonZero, ops::Range, slice, thread};

use aya::Pod;

use super::backend::Backend;

/// The elements requested at first. More if a bucket of a hash map holds more.
const ELEMENTS: usize = 4096;
/// The least number of elements for each thread that writes a map.
const ELEMENTS_OF_THREAD: usize = 1 << 16;
/// The most threads that write a map.
const THREADS_MAX: usize = 4;

/// The position of a scan of a map. The default is its beginning.
#[derive(Clone, Debug, Default)]
pub struct ScanPosition(Option<Vec<u8>>);

impl ScanPosition {
    /// Returns whether this is the beginning. As the result of a read, it means that the scan is
    /// complete.
    pub fn is_front(&self) -> bool {
        self.0.is_none()
    }
}

/// Returns the bytes of plain values.
pub fn bytes_of<T: Pod>(values: &[T]) -> &[u8] {
    // SAFETY: they are plain data without padding, as the kernel stores them.
    unsafe { slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// Returns the bytes of plain values, to be written.
pub fn bytes_of_mut<T: Pod>(values: &mut [T]) -> &mut [u8] {
    // SAFETY: as above, and valid for any bytes.
    unsafe { slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}

/// Returns a plain value of zeros.
pub fn zeroed<T: Pod>() -> T {
    // SAFETY: it is valid for any bytes.
    unsafe { std::mem::zeroed() }
}

/// Calls `visit` with every element. Elements that are added or removed during the scan may be
/// missed. In LRU maps, an element may mix old and new words, but each word is consistent.
pub fn for_each<K: Pod, V: Pod>(map: &dyn Backend, mut visit: impl FnMut(K, V)) -> io::Result<()> {
    to_the_end(|place| for_some(map, place, ELEMENTS, &mut visit))
}

/// Repeats `scan` from the position that it returns, until the map is complete.
pub fn to_the_end<E>(
    mut scan: impl FnMut(&ScanPosition) -> Result<ScanPosition, E>,
) -> Result<(), E> {
    let mut place = ScanPosition::default();
    loop {
        place = scan(&place)?;
        if place.is_front() {
            return Ok(());
        }
    }
}

/// Calls `visit` with up to `elements` elements from a position, or as many more as a bucket holds.
/// Returns where to continue: the beginning after the last one.
pub fn for_some<K: Pod, V: Pod>(
    map: &dyn Backend,
    place: &ScanPosition,
    elements: usize,
    mut visit: impl FnMut(K, V),
) -> io::Result<ScanPosition> {
    for_some_parts(map, place, elements, 1, |key, value: &[V]| {
        for value in value {
            visit(key, *value);
        }
    })
}

/// Returns the elements of an array in a range of indices, as their `parts`: one of each CPU if
/// each has its own.
pub fn range<P: Pod>(map: &dyn Backend, indices: Range<u32>, parts: usize) -> io::Result<Vec<P>> {
    let before = indices.start.checked_sub(1);
    let place = ScanPosition(before.map(|index| index.to_ne_bytes().to_vec()));
    let (_, values, _) = read::<u32, P>(map, &place, indices.len(), parts)?;
    Ok(values)
}

/// Like [`for_some`], for values that consist of a number of `parts`, such as words.
pub fn for_some_parts<K: Pod, P: Pod>(
    map: &dyn Backend,
    place: &ScanPosition,
    mut elements: usize,
    parts: usize,
    mut visit: impl FnMut(K, &[P]),
) -> io::Result<ScanPosition> {
    loop {
        match read(map, place, elements, parts) {
            Ok((keys, values, next)) => {
                for (key, value) in keys.into_iter().zip(values.chunks_exact(parts)) {
                    visit(key, value);
                }
                return Ok(next);
            }
            // The next bucket does not fit.
            Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => elements *= 2,
            Err(error) => return Err(error),
        }
    }
}

/// Reads up to `elements` elements from a position: their keys, their values and where to continue.
fn read<K: Pod, P: Pod>(
    map: &dyn Backend,
    place: &ScanPosition,
    elements: usize,
    parts: usize,
) -> io::Result<(Vec<K>, Vec<P>, ScanPosition)> {
    let mut keys = Vec::with_capacity(elements);
    let mut values = Vec::with_capacity(elements * parts);
    let mut next = vec![0; size_of::<K>().max(size_of::<u32>())];
    let own_keys = room(&mut keys, elements);
    let own_values = room(&mut values, elements * parts);
    let read = map.read_batch(place.0.as_deref(), &mut next, own_keys, own_values)?;
    // SAFETY: the backend has initialized them, and they are valid for any bytes.
    unsafe {
        keys.set_len(read.count);
        values.set_len(read.count * parts);
    }
    Ok((keys, values, ScanPosition((!read.is_last).then_some(next))))
}

/// Returns the bytes of the first `count` elements that a vector has room for.
fn room<T: Pod>(of: &mut Vec<T>, count: usize) -> &mut [MaybeUninit<u8>] {
    let room = &mut of.spare_capacity_mut()[..count];
    // SAFETY: bytes that need not be initialized.
    unsafe { slice::from_raw_parts_mut(room.as_mut_ptr().cast(), size_of_val(room)) }
}

/// Inserts or replaces elements of a hash map. For many elements, several threads do so, as each
/// mostly waits for memory.
///
/// # Errors
///
/// If the kernel fails, some of the elements were written.
pub fn update<K: Pod + Sync, V: Pod + Sync>(
    map: &dyn Backend,
    keys: &[K],
    values: &[V],
) -> io::Result<()> {
    assert_eq!(keys.len(), values.len(), "each key has a value");
    if keys.len() <= ELEMENTS_OF_THREAD {
        return update_part(map, keys, values);
    }
    let cpus = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = keys.len().div_ceil(ELEMENTS_OF_THREAD);
    let elements = keys.len().div_ceil(threads.min(cpus).min(THREADS_MAX));
    thread::scope(|scope| {
        let parts = keys.chunks(elements).zip(values.chunks(elements));
        let threads = parts.map(|(keys, values)| scope.spawn(|| update_part(map, keys, values)));
        let threads: Vec<_> = threads.collect();
        let answers = threads
            .into_iter()
            .map(|thread| thread.join().expect("it does not panic"));
        answers.fold(Ok(()), io::Result::and)
    })
}

/// Inserts or replaces elements in one system call. `values` has as many parts for each key as its
/// value has.
pub fn update_part<K: Pod, P: Pod>(map: &dyn Backend, keys: &[K], values: &[P]) -> io::Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    map.update_batch(bytes_of(keys), bytes_of(values))
}
