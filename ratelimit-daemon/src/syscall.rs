//! The system call `bpf`, for the commands that aya lacks.

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsRawFd, BorrowedFd},
};

use aya::Pod;
use aya_obj::generated::{bpf_attr, bpf_cmd};

/// The attributes of a command, all zero.
pub fn attributes() -> bpf_attr {
    // SAFETY: it is plain data, valid when all zero.
    unsafe { std::mem::zeroed() }
}

/// Runs a command, and returns the kernel's result: a descriptor, or zero.
///
/// # Safety
///
/// The buffers in the attributes must have the sizes that the command expects, and outlive the
/// call.
pub unsafe fn bpf(command: bpf_cmd, attributes: &mut bpf_attr) -> io::Result<i32> {
    // SAFETY: guaranteed by the caller.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_mut(attributes),
            size_of::<bpf_attr>(),
        )
    };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    i32::try_from(answer).map_err(io::Error::other)
}

/// Runs a command that reads an element of a map; `false` where the map has none of this key.
///
/// # Safety
///
/// Key and value are as large as those of the map.
pub unsafe fn read<K, V>(
    command: bpf_cmd,
    map: BorrowedFd<'_>,
    key: &K,
    value: *mut V,
) -> io::Result<bool> {
    let mut attributes = attributes();
    // SAFETY: every field of the union is plain data, and the whole of it was zeroed.
    let element = unsafe { &mut attributes.__bindgen_anon_2 };
    element.map_fd = map.as_raw_fd().cast_unsigned();
    element.key = std::ptr::from_ref(key) as u64;
    element.__bindgen_anon_1.value = value as u64;
    // SAFETY: guaranteed by the caller.
    match unsafe { bpf(command, &mut attributes) } {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes an element of a hash map, and returns its value atomically (kernel 5.14, commit
/// 3e87f192b405).
pub fn take<K: Pod, V: Pod>(map: BorrowedFd<'_>, key: &K) -> io::Result<Option<V>> {
    let mut value = MaybeUninit::<V>::uninit();
    let command = bpf_cmd::BPF_MAP_LOOKUP_AND_DELETE_ELEM;
    // SAFETY: the caller names the types of the map, as for its other elements.
    let is_taken = unsafe { read(command, map, key, value.as_mut_ptr()) }?;
    // SAFETY: the kernel wrote it, and it is valid for any bytes.
    Ok(is_taken.then(|| unsafe { value.assume_init() }))
}
