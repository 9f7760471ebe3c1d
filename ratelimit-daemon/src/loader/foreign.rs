//! How to take somebody else's program off an interface.

use ratelimit_interface::XdpMode;

/// What to type. A program on a BPF link stays whatever `ip` is asked to do. Which links there are only `CAP_SYS_ADMIN` may ask, and nobody
/// here has it: the hint names both ways.
pub fn how_to_take_off(interface: &str, mode: XdpMode, program: u32) -> String {
    let hook = mode.ip_word();
    format!(
        "`ip link set dev {interface} {hook} off` takes it off, or where that says that it cannot replace an active link \
         `bpftool link detach id N`, with the N that `bpftool link list` shows for the program {program}"
    )
}
