//! The interface of a BPF link, which aya does not expose.

use std::{
    io,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
};

use aya_obj::generated::{bpf_attr, bpf_cmd, bpf_link_info};

/// The index of the interface on which the XDP link of this number holds its program.
pub fn interface(link: u32) -> io::Result<u32> {
    let mut attributes = attributes();
    attributes.__bindgen_anon_6.__bindgen_anon_1.link_id = link;
    let link = bpf(bpf_cmd::BPF_LINK_GET_FD_BY_ID, &mut attributes)?;
    // SAFETY: the kernel has just opened it for us.
    let link = unsafe { OwnedFd::from_raw_fd(link) };
    // SAFETY: it is plain data, valid when all zero.
    let mut info: bpf_link_info = unsafe { std::mem::zeroed() };
    let mut attributes = self::attributes();
    attributes.info.bpf_fd = link.as_raw_fd().cast_unsigned();
    attributes.info.info_len = u32::try_from(size_of::<bpf_link_info>()).expect("it is small");
    attributes.info.info = std::ptr::from_mut(&mut info) as u64;
    bpf(bpf_cmd::BPF_OBJ_GET_INFO_BY_FD, &mut attributes)?;
    // SAFETY: every field of the union is plain data, and the whole of it was zeroed.
    Ok(unsafe { info.__bindgen_anon_1.xdp.ifindex })
}

fn attributes() -> bpf_attr {
    // SAFETY: it is plain data, valid when all zero.
    unsafe { std::mem::zeroed() }
}

/// Runs a command whose buffers are as large as the attributes say.
fn bpf(command: bpf_cmd, attributes: &mut bpf_attr) -> io::Result<i32> {
    let (attributes, size) = (std::ptr::from_mut(attributes), size_of::<bpf_attr>());
    // SAFETY: the attributes are whole, and both commands write nothing but into `info`, which is
    // as large as `info_len`.
    let answer = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size) };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    i32::try_from(answer).map_err(io::Error::other)
}
