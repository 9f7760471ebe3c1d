//! The system call `bpf`, for the commands that aya lacks.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

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

/// Runs a command on an element of a map; `false` if the map has none with this key.
///
/// # Safety
///
/// Key and value are as large as those of the map.
pub unsafe fn element(
    command: bpf_cmd,
    map: BorrowedFd<'_>,
    key: *const u8,
    value: *mut u8,
    flags: u32,
) -> io::Result<bool> {
    let mut attributes = attributes();
    // SAFETY: every field of the union is plain data, and the whole of it was zeroed.
    let element = unsafe { &mut attributes.__bindgen_anon_2 };
    element.map_fd = map.as_raw_fd().cast_unsigned();
    element.key = key as u64;
    element.__bindgen_anon_1.value = value as u64;
    element.flags = flags.into();
    // SAFETY: guaranteed by the caller.
    match unsafe { bpf(command, &mut attributes) } {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}
