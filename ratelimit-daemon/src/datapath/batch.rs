//! Reading a whole map in few system calls: `BPF_MAP_LOOKUP_BATCH` (kernel 5.6, commit cb4d03ab499d), which aya lacks.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

use aya::Pod;
use aya_obj::generated::{bpf_attr, bpf_cmd};

/// Elements asked for at first; more where a bucket of a hash map holds more.
const ELEMENTS: usize = 4096;

/// Calls `visit` with every element. Elements that come or go meanwhile may be missed; none is seen torn but for LRU maps,
/// whose words are each whole.
///
/// # Errors
///
/// What the kernel answers.
pub fn for_each<K: Pod, V: Pod>(
    map: BorrowedFd<'_>,
    mut visit: impl FnMut(K, V),
) -> io::Result<()> {
    let mut elements = ELEMENTS;
    // The kernel's place in the map: a bucket's number, or a key.
    let mut place = vec![0u8; size_of::<K>().max(size_of::<u32>())];
    let mut started = false;
    loop {
        let mut keys = Vec::<K>::with_capacity(elements);
        let mut values = Vec::<V>::with_capacity(elements);
        let mut next = vec![0u8; place.len()];
        let answer = lookup(
            map,
            started.then_some(&place),
            &mut next,
            &mut keys,
            &mut values,
        );
        for (key, value) in keys.into_iter().zip(values) {
            visit(key, value);
        }
        match answer {
            Ok(()) => (place, started) = (next, true),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(()),
            // The next bucket does not fit.
            Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => elements *= 2,
            Err(error) => return Err(error),
        }
    }
}

/// Fills `keys` and `values` up to their capacity. `ENOENT` is the end of the map: what was read before it counts.
fn lookup<K: Pod, V: Pod>(
    map: BorrowedFd<'_>,
    place: Option<&Vec<u8>>,
    next: &mut [u8],
    keys: &mut Vec<K>,
    values: &mut Vec<V>,
) -> io::Result<()> {
    // SAFETY: `bpf_attr` is plain data, valid when all zero.
    let mut attributes: bpf_attr = unsafe { std::mem::zeroed() };
    let capacity = keys.capacity().min(values.capacity());
    // SAFETY: every field of the union is plain data, and the whole of it was zeroed.
    let batch = unsafe { &mut attributes.batch };
    batch.in_batch = place.map_or(0, |place| place.as_ptr() as u64);
    batch.out_batch = next.as_mut_ptr() as u64;
    batch.keys = keys.as_mut_ptr() as u64;
    batch.values = values.as_mut_ptr() as u64;
    batch.count = u32::try_from(capacity).unwrap_or(u32::MAX);
    batch.map_fd = map.as_raw_fd().cast_unsigned();
    // SAFETY: the attributes point to buffers that hold `count` elements and outlive the call.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            bpf_cmd::BPF_MAP_LOOKUP_BATCH,
            &raw mut attributes,
            size_of::<bpf_attr>(),
        )
    };
    let error = (answer != 0).then(io::Error::last_os_error);
    let errno = error.as_ref().and_then(io::Error::raw_os_error);
    if matches!(errno, None | Some(libc::ENOENT)) {
        // SAFETY: the kernel wrote the number of elements that it filled, which are valid for any bytes.
        unsafe {
            let filled = attributes.batch.count as usize;
            keys.set_len(filled.min(capacity));
            values.set_len(filled.min(capacity));
        }
    }
    error.map_or(Ok(()), Err)
}
