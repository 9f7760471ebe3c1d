//! Pinned programs of other owners.

use std::{
    ffi::CString,
    fs, io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    path::{Path, PathBuf},
    process::{self, Command},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use anyhow::{Result, ensure};
use aya::{
    maps::{Map, MapData, ProgramArray},
    programs::Xdp,
};
use aya_obj::{
    generated::{bpf_attr, bpf_attr__bindgen_ty_4, bpf_cmd, bpf_map_type, bpf_prog_type},
    programs::XdpAttachType,
};

/// `BPF_F_XDP_HAS_FRAGS` of linux/bpf.h.
const HAS_FRAGS: u32 = 1 << 5;
/// `BPF_XDP` of linux/bpf.h, which libbpf and aya say of programs for interfaces.
const ON_INTERFACES: u32 = 37;
/// The name of the programs.
pub const NAME: &str = "somebody_elses";
/// The path of an object of xdp-filter on Debian.
const XDP_FILTER: &str = "/usr/lib/x86_64-linux-gnu/bpf/xdpfilt_alw_all.o";

/// The action of a program for every packet: a number of `enum xdp_action`.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// `XDP_PASS`.
    Pass = 2,
    /// `XDP_TX`: it goes back where it came from.
    Return = 3,
}

/// A pin that goes when this is dropped.
pub struct Pin(PathBuf);

impl Pin {
    /// A path at which nothing is pinned yet.
    pub fn vacant() -> Self {
        static PINS: AtomicU32 = AtomicU32::new(0);
        let unique = format!(
            "rltest-foreign-{}-{}",
            process::id(),
            PINS.fetch_add(1, Relaxed)
        );
        Self(Path::new("/sys/fs/bpf").join(unique))
    }

    /// A program that answers every packet with `answer`, and takes frames of several buffers or
    /// not.
    pub fn answering(answer: Answer, frags: bool) -> Result<Self> {
        Self::of(&load(answer, frags)?)
    }

    /// A program that is none for interfaces.
    pub fn socket_filter() -> Result<Self> {
        Self::of(&load_as(
            bpf_prog_type::BPF_PROG_TYPE_SOCKET_FILTER,
            Answer::Pass,
            |_| {},
        )?)
    }

    /// A program that calls the one that is pinned at `path`, from an array of its own, and passes
    /// what comes back.
    pub fn calling(path: &Path) -> Result<Self> {
        let called = Xdp::from_pin(path, XdpAttachType::Interface)?;
        let array = create_array()?;
        let number = u64::try_from(array.as_raw_fd())?;
        // r2 = the array, r3 = 0, tail_call, r0 = XDP_PASS, exit.
        let code = [
            0x1218 | number << 32,
            0,
            0x03b7,
            0x85 | 12 << 32,
            0xb7 | (Answer::Pass as u64) << 32,
            0x95,
        ];
        let program = load_code(bpf_prog_type::BPF_PROG_TYPE_XDP, &code, |program| {
            program.expected_attach_type = ON_INTERFACES;
        })?;
        let map = Map::ProgramArray(MapData::from_fd(array.try_clone()?)?);
        let pin = Self::of(&program)?;
        let mut array = ProgramArray::try_from(map)?;
        array.set(0, called.fd()?, 0)?;
        // An array forgets its programs with the last descriptor of user space: one stays open as
        // long as this process.
        std::mem::forget(array);
        Ok(pin)
    }

    fn of(program: &OwnedFd) -> Result<Self> {
        let pin = Self::vacant();
        let name = CString::new(pin.text())?;
        // SAFETY: every field of the union is plain data.
        let mut attributes: bpf_attr = unsafe { std::mem::zeroed() };
        // SAFETY: the whole of it was zeroed.
        let pinned = unsafe { &mut attributes.__bindgen_anon_4 };
        pinned.pathname = name.as_ptr() as u64;
        pinned.bpf_fd = u32::try_from(program.as_raw_fd())?;
        bpf(bpf_cmd::BPF_OBJ_PIN, &mut attributes)?;
        Ok(pin)
    }

    /// Loads the program of Debian's xdp-filter that drops what its maps list. Its own pins are in
    /// a separate bpffs.
    pub fn xdp_filter() -> Result<Self> {
        const SCRIPT: &str = "set -e; hosts=$(mktemp -d); mount --bind /sys/fs/bpf $hosts; mount \
                              -t bpf bpf /sys/fs/bpf; bpftool prog load $1 /sys/fs/bpf/filter; \
                              bpftool prog pin pinned /sys/fs/bpf/filter $hosts/$2; umount $hosts; \
                              rmdir $hosts";
        let pin = Self::vacant();
        let name = pin.0.file_name().unwrap_or_default();
        let mut unshare = Command::new("unshare");
        let unshare = unshare.args(["-m", "sh", "-c", SCRIPT, "sh", XDP_FILTER]);
        let output = unshare.arg(name).output()?;
        ensure!(output.status.success(), "loading xdp-filter: {output:?}");
        Ok(pin)
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the path as text.
    pub fn text(&self) -> &str {
        self.0.to_str().expect("it is made of letters and digits")
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn load(answer: Answer, frags: bool) -> io::Result<OwnedFd> {
    load_as(bpf_prog_type::BPF_PROG_TYPE_XDP, answer, |program| {
        program.expected_attach_type = ON_INTERFACES;
        program.prog_flags = if frags { HAS_FRAGS } else { 0 };
    })
}

/// Loads two instructions, of which the first sets the answer.
fn load_as(
    kind: bpf_prog_type,
    answer: Answer,
    more: impl FnOnce(&mut bpf_attr__bindgen_ty_4),
) -> io::Result<OwnedFd> {
    load_code(kind, &[0xb7 | (answer as u64) << 32, 0x95], more)
}

/// A map of one program.
fn create_array() -> io::Result<OwnedFd> {
    // SAFETY: every field of the union is plain data.
    let mut attributes: bpf_attr = unsafe { std::mem::zeroed() };
    // SAFETY: the whole of it was zeroed.
    let map = unsafe { &mut attributes.__bindgen_anon_1 };
    map.map_type = bpf_map_type::BPF_MAP_TYPE_PROG_ARRAY as u32;
    map.key_size = 4;
    map.value_size = 4;
    map.max_entries = 1;
    let descriptor = bpf(bpf_cmd::BPF_MAP_CREATE, &mut attributes)?;
    // SAFETY: the kernel gave it to this process just now.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn load_code(
    kind: bpf_prog_type,
    code: &[u64],
    more: impl FnOnce(&mut bpf_attr__bindgen_ty_4),
) -> io::Result<OwnedFd> {
    let license = c"GPL";
    // SAFETY: every field of the union is plain data.
    let mut attributes: bpf_attr = unsafe { std::mem::zeroed() };
    // SAFETY: the whole of it was zeroed.
    let program = unsafe { &mut attributes.__bindgen_anon_3 };
    program.prog_type = kind as u32;
    more(program);
    program.insns = code.as_ptr() as u64;
    program.insn_cnt = u32::try_from(code.len()).map_err(io::Error::other)?;
    program.license = license.as_ptr() as u64;
    for (place, byte) in program.prog_name.iter_mut().zip(NAME.bytes()) {
        *place = byte.cast_signed();
    }
    let descriptor = bpf(bpf_cmd::BPF_PROG_LOAD, &mut attributes)?;
    // SAFETY: the kernel gave it to this process just now.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Runs a command of the system call `bpf`.
pub(crate) fn bpf(command: bpf_cmd, attributes: &mut bpf_attr) -> io::Result<i32> {
    // SAFETY: the buffers in the attributes outlive the call.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command as libc::c_int,
            attributes,
            size_of::<bpf_attr>(),
        )
    };
    match i32::try_from(answer) {
        Ok(answer) if answer >= 0 => Ok(answer),
        _ => Err(io::Error::last_os_error()),
    }
}
