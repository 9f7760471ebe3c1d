//! The socket of this host for a packet. If it belongs to a TCP connection, the source is not
//! forged.

use core::{mem, ptr};

use aya_ebpf::{
    bindings::{bpf_sock, bpf_sock_tuple},
    helpers::{bpf_sk_lookup_udp, bpf_sk_release, bpf_skc_lookup_tcp},
};
use ratelimit_common::{
    parse::{Connection, Wanted},
    sample::Socket,
};

use crate::{
    frame::{self, Context},
    headers::{inner, walk},
    interface::link_layer,
    settings::settings,
};

/// The network namespace of the interface (`BPF_F_CURRENT_NETNS` of linux/bpf.h).
pub const OWN_NAMESPACE: u64 = u64::MAX;

/// The states of a connection whose handshake was completed, a bit each (`enum` of
/// include/net/tcp_states.h): established, and all that follow up to the last acknowledgement.
/// TIME_WAIT has no socket that could be asked.
const COMPLETED: u32 = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 11;

/// The state of a socket that waits for anybody.
pub const LISTENING: u32 = 10;

subprograms! {
    /// The socket that this host has for the packet of `context`, if it is `wanted` and of this
    /// family.
    pub fn socket[find_socket_v4, find_socket_v6]<A>(
        context: *mut Context, wanted: Wanted
    ) -> Socket {
        let inner = inner(context, settings().generation());
        let (frame, is_copied) = frame::reread(context);
        let connection = Connection::<A>::of(
            frame,
            link_layer(),
            inner,
            wanted,
            |cursor, first| walk(context, cursor, first),
            |upper| frame::within(is_copied, upper),
        );
        match (connection, wanted) {
            (None, _) => Socket::None,
            (Some(connection), Wanted::Segment) => of_segment(context, &connection),
            (Some(connection), Wanted::Datagram) => of_datagram(context, &connection),
        }
    }
}

#[inline(always)]
fn of_segment<A>(context: *mut Context, connection: &Connection<A>) -> Socket {
    // SAFETY: the tuple has the length passed to the kernel, and the layout of its member for the
    // family. It is only read.
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
        return Socket::None;
    }
    // SAFETY: the socket is not null, and is held until it is released.
    let state = unsafe {
        let state = (&raw const (*socket).state).read_volatile();
        bpf_sk_release(socket.cast());
        state
    };
    if COMPLETED & 1u32.wrapping_shl(state) != 0 {
        Socket::Connected
    } else if state == LISTENING {
        Socket::None
    } else {
        Socket::Connecting
    }
}

#[inline(always)]
fn of_datagram<A>(context: *mut Context, connection: &Connection<A>) -> Socket {
    // SAFETY: as above.
    let socket: *mut bpf_sock = unsafe {
        bpf_sk_lookup_udp(
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
        return Socket::None;
    }
    // SAFETY: the socket is not null.
    unsafe { bpf_sk_release(socket.cast()) };
    Socket::Datagram
}
