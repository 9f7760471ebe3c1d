//! Whether a packet is one of a TCP connection with this host: then its source is not forged.

use core::{mem, ptr};

use aya_ebpf::{
    bindings::{bpf_sock, bpf_sock_tuple, xdp_md},
    helpers::{bpf_sk_release, bpf_skc_lookup_tcp},
};
use ratelimit_common::parse::Connection;

/// The network namespace of the interface (`BPF_F_CURRENT_NETNS` of linux/bpf.h).
const OWN_NAMESPACE: u64 = u64::MAX;

/// The states of a connection whose handshake was completed, a bit each (`enum` of include/net/tcp_states.h): established,
/// and all that follow up to the last acknowledgement. TIME_WAIT has no socket that could be asked.
const COMPLETED: u32 = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 11;

/// Looks for the socket of `connection`, which came in the packet of `context`.
#[inline(always)]
pub fn is_completed<A>(context: *mut xdp_md, connection: &Connection<A>) -> bool {
    // SAFETY: the tuple is as long as the kernel is told, and has the layout of its member for the family. It is only read.
    let socket: *mut bpf_sock = unsafe {
        bpf_skc_lookup_tcp(
            context.cast(),
            ptr::from_ref(connection)
                .cast_mut()
                .cast::<bpf_sock_tuple>(),
            mem::size_of::<Connection<A>>() as u32,
            OWN_NAMESPACE,
            0,
        )
    };
    if socket.is_null() {
        return false;
    }
    // SAFETY: the socket is not null, and is held until it is released.
    unsafe {
        let state = (&raw const (*socket).state).read_volatile();
        bpf_sk_release(socket.cast());
        COMPLETED & 1u32.wrapping_shl(state) != 0
    }
}
