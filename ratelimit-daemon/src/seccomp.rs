//! The system calls that the processes may make. All others return `ENOSYS`, which libraries
//! mistake for an older kernel. None of them executes a program, changes a user, traces, mounts, or
//! loads a module.
//!
//! Threads inherit the filters, and nothing can remove them.

use std::collections::BTreeMap;

use anyhow::{Context, anyhow};
use aya_obj::generated::bpf_cmd;
use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Is, SeccompCondition,
    SeccompFilter, SeccompRule,
};

type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

/// System calls of all our processes: memory, time, signals, and open descriptors.
const COMMON: &[c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_futex,
    libc::SYS_getcwd,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_getuid,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_prlimit64,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_sysinfo,
    libc::SYS_tgkill,
    libc::SYS_uname,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Files and directories, by their rights.
const FILES: &[c_long] = &[
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fchmodat,
    libc::SYS_fstatfs,
    libc::SYS_getdents64,
    libc::SYS_mkdirat,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_readlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_umask,
    libc::SYS_unlinkat,
];

/// System calls with the same purpose that newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const OLD: &[c_long] = &[
    libc::SYS_access,
    libc::SYS_alarm,
    libc::SYS_chmod,
    libc::SYS_dup2,
    libc::SYS_lstat,
    libc::SYS_mkdir,
    libc::SYS_open,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_rmdir,
    libc::SYS_stat,
    libc::SYS_time,
    libc::SYS_unlink,
    libc::SYS_arch_prctl,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[c_long] = &[];

/// Sockets that are there, of the families that may come.
const SOCKETS: &[c_long] = &[
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
];

/// Further system calls of the daemon: for its database, its runtime, its listeners.
const DAEMON: &[c_long] = &[
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_chdir,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_fadvise64,
    libc::SYS_fallocate,
    libc::SYS_fchmod,
    libc::SYS_fchown,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_getgroups,
    libc::SYS_getpgid,
    libc::SYS_getpriority,
    libc::SYS_getresgid,
    libc::SYS_getresuid,
    libc::SYS_getsid,
    libc::SYS_linkat,
    libc::SYS_listen,
    libc::SYS_membarrier,
    libc::SYS_mincore,
    libc::SYS_mlock,
    libc::SYS_msync,
    libc::SYS_pipe2,
    libc::SYS_pread64,
    libc::SYS_recvmmsg,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sendfile,
    libc::SYS_sendmmsg,
    libc::SYS_set_tid_address,
    libc::SYS_socketpair,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_utimensat,
    libc::SYS_wait4,
    libc::SYS_waitid,
];

#[cfg(target_arch = "x86_64")]
const DAEMON_OLD: &[c_long] = &[
    libc::SYS_epoll_wait,
    libc::SYS_getdents,
    libc::SYS_pipe,
    libc::SYS_select,
];
#[cfg(not(target_arch = "x86_64"))]
const DAEMON_OLD: &[c_long] = &[];

/// The commands of `bpf` that change and read maps by their descriptors.
const OF_MAPS: [bpf_cmd; 9] = [
    bpf_cmd::BPF_MAP_LOOKUP_ELEM,
    bpf_cmd::BPF_MAP_UPDATE_ELEM,
    bpf_cmd::BPF_MAP_DELETE_ELEM,
    bpf_cmd::BPF_MAP_GET_NEXT_KEY,
    bpf_cmd::BPF_MAP_LOOKUP_AND_DELETE_ELEM,
    bpf_cmd::BPF_MAP_LOOKUP_BATCH,
    bpf_cmd::BPF_MAP_UPDATE_BATCH,
    bpf_cmd::BPF_MAP_DELETE_BATCH,
    bpf_cmd::BPF_OBJ_GET_INFO_BY_FD,
];

/// BPF commands that load, attach and pin.
const OF_LOADING: [bpf_cmd; 9] = [
    bpf_cmd::BPF_MAP_CREATE,
    bpf_cmd::BPF_MAP_FREEZE,
    bpf_cmd::BPF_PROG_LOAD,
    bpf_cmd::BPF_BTF_LOAD,
    bpf_cmd::BPF_OBJ_PIN,
    bpf_cmd::BPF_PROG_QUERY,
    bpf_cmd::BPF_OBJ_GET,
    bpf_cmd::BPF_LINK_CREATE,
    bpf_cmd::BPF_LINK_UPDATE,
];

/// Restricts this process to the needs of the loader.
pub fn enter_loader() -> anyhow::Result<()> {
    let mut rules = allowed(&[COMMON, FILES, OLD, SOCKETS]);
    let commands = OF_MAPS.into_iter().chain(OF_LOADING);
    let commands = first_is(commands.map(|command| command as u32))?;
    rules.insert(libc::SYS_bpf, commands);
    let families = [libc::AF_NETLINK].map(i32::unsigned_abs);
    rules.insert(libc::SYS_socket, first_is(families)?);
    enter(rules)
}

/// Restricts this process to the needs of the daemon.
pub fn enter_daemon() -> anyhow::Result<()> {
    let mut rules = allowed(&[COMMON, FILES, OLD, SOCKETS, DAEMON, DAEMON_OLD]);
    let commands = OF_MAPS.map(|command| command as u32);
    rules.insert(libc::SYS_bpf, first_is(commands)?);
    let families = [
        libc::AF_UNIX,
        libc::AF_INET,
        libc::AF_INET6,
        libc::AF_NETLINK,
    ];
    let families = families.map(i32::unsigned_abs);
    rules.insert(libc::SYS_socket, first_is(families)?);
    // Only threads, no processes. If the arguments cannot be inspected (`clone3`), the C library
    // falls back to this call.
    let thread = u64::from(libc::CLONE_THREAD.unsigned_abs());
    let of_thread = rule(0, Is::MaskedEq(thread), thread)?;
    rules.insert(libc::SYS_clone, vec![of_thread]);
    let options = [libc::PR_SET_NAME, libc::PR_GET_NAME].map(i32::unsigned_abs);
    rules.insert(libc::SYS_prctl, first_is(options)?);
    let requests = [libc::FIONBIO, libc::FIONREAD, libc::FIOCLEX, libc::TCGETS];
    #[allow(
        clippy::cast_sign_loss,
        clippy::unnecessary_cast,
        reason = "their type is another one in each C library"
    )]
    let requests = requests.map(|request| rule(1, Is::Eq, request as u64));
    let requests = requests.into_iter().collect::<Result<_, _>>()?;
    rules.insert(libc::SYS_ioctl, requests);
    enter(rules)
}

fn allowed(calls: &[&[c_long]]) -> Rules {
    let calls = calls.iter().flat_map(|calls| calls.iter());
    calls.map(|call| (*call, Vec::new())).collect()
}

/// Rules for a call whose first argument is one of `values`.
fn first_is(values: impl IntoIterator<Item = u32>) -> anyhow::Result<Vec<SeccompRule>> {
    let values = values.into_iter();
    values.map(|it| rule(0, Is::Eq, it.into())).collect()
}

fn rule(argument: u8, is: Is, value: u64) -> anyhow::Result<SeccompRule> {
    let condition = SeccompCondition::new(argument, Length::Dword, is, value)?;
    Ok(SeccompRule::new(vec![condition])?)
}

fn enter(rules: Rules) -> anyhow::Result<()> {
    let missing = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let architecture = std::env::consts::ARCH
        .try_into()
        .map_err(|_| anyhow!("no filter for {}", std::env::consts::ARCH))?;
    let filter = SeccompFilter::new(rules, missing, SeccompAction::Allow, architecture)
        .context("making the filter")?;
    let program: BpfProgram = filter.try_into().context("making the filter")?;
    seccompiler::apply_filter(&program).context("applying the filter")
}
