//! Hints for detaching a foreign program.

use ratelimit_interface::AttachMode;

/// Returns the command. `ip` cannot detach a program on a BPF link. Listing links requires
/// `CAP_SYS_ADMIN`, which the daemon lacks, so the hint names both ways.
pub fn detach_command(interface: &str, mode: AttachMode, program: u32) -> String {
    let command = mode.detach_command(interface);
    format!(
        "`{command}` detaches it; if that cannot replace an active \
         link, use `bpftool link detach id N` with the N that `bpftool link list` shows for the \
         program {program}"
    )
}
