//! SYN cookies of the listeners of this host.
//!
//! The arguments of helpers are copied to the stack. They require a TCP header of exact length in
//! one piece, which a variable bound cannot prove for the packet itself.

use core::mem::MaybeUninit;

use aya_ebpf::{
    bindings::{bpf_sock, bpf_sock_tuple, tcphdr},
    cty::c_void,
    helpers::{bpf_sk_release, bpf_skc_lookup_tcp, bpf_tcp_check_syncookie, bpf_tcp_gen_syncookie},
};
use ratelimit_common::challenge::{Offsets, answer::ListenerCookie};

use crate::{
    connection::{LISTENING, OWN_NAMESPACE},
    frame::{self, Context},
    subprogram::opaque,
};

const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
/// A TCP header without options, and with all that it can have.
const TCP_BYTES: usize = 20;
const TCP_BYTES_MAX: usize = 60;
/// The offset of the data offset in a TCP header.
const WORDS: usize = 12;

/// The words of a network header without options, and of the transport header right behind it: so
/// both addresses and both ports are one piece.
const WITHOUT_OPTIONS: usize = (IPV6_BYTES + TCP_BYTES).div_ceil(8);
const WITH_OPTIONS: usize = (IPV6_BYTES + TCP_BYTES_MAX).div_ceil(8);

/// The request to a listener.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Question {
    /// For a cookie in answer to a SYN.
    Cookie,
    /// Whether an acknowledgement is that of one.
    IsAcknowledged,
}

subprograms! {
    /// The cookie of the listener of the SYN at these offsets.
    pub fn cookie(
        context: *mut Context, offsets: Offsets, is_ipv6: bool
    ) -> Option<ListenerCookie> {
        let cookie = ask::<WITH_OPTIONS>(context, offsets, is_ipv6, Question::Cookie);
        (cookie != 0).then_some(ListenerCookie {
            sequence: cookie as u32,
            segment_bytes: (cookie >> 32) as u16,
        })
    }

    /// Whether the segment at these offsets acknowledges a cookie of its listener.
    pub fn acknowledges(context: *mut Context, offsets: Offsets, is_ipv6: bool) -> bool {
        ask::<WITHOUT_OPTIONS>(context, offsets, is_ipv6, Question::IsAcknowledged) != 0
    }
}

/// Asks the listener for the segment at this position. Returns a cookie with the segment size above
/// it, or 1; 0 if there is no listener.
#[inline(always)]
fn ask<const HEADERS: usize>(
    context: *mut Context,
    offsets: Offsets,
    is_ipv6: bool,
    question: Question,
) -> u64 {
    if is_ipv6 {
        ask_behind::<HEADERS, IPV6_BYTES, 8>(context, offsets, question)
    } else {
        ask_behind::<HEADERS, IPV4_BYTES, 12>(context, offsets, question)
    }
}

/// Asks the listener behind a network header of `IP` bytes with the addresses at offset `ENDS`.
#[inline(always)]
fn ask_behind<const HEADERS: usize, const IP: usize, const ENDS: usize>(
    context: *mut Context,
    offsets: Offsets,
    question: Question,
) -> u64 {
    let mut headers = MaybeUninit::<[u64; HEADERS]>::uninit();
    let start = headers.as_mut_ptr().cast::<c_void>();
    // SAFETY: the pieces lie within the headers, and the lengths are those of the pieces.
    unsafe {
        // Volatile, because the compiler would emit a call, which takes stack.
        for index in 0..HEADERS {
            start.cast::<u64>().add(index).write_volatile(0);
        }
        let segment = start.add(IP);
        if !frame::read(context, offsets.packet.into(), start, IP as u32)
            || !frame::read(context, offsets.segment.into(), segment, TCP_BYTES as u32)
        {
            return 0;
        }
        let mut bytes = TCP_BYTES as u64;
        if question == Question::Cookie {
            bytes = opaque(u64::from(segment.cast::<u8>().add(WORDS).read() >> 4).wrapping_mul(4));
            if bytes < TCP_BYTES as u64 || bytes > TCP_BYTES_MAX as u64 {
                return 0;
            }
            if !frame::read(context, offsets.segment.into(), segment, bytes as u32) {
                return 0;
            }
        }
        let socket: *mut bpf_sock = bpf_skc_lookup_tcp(
            context.cast(),
            start.add(ENDS).cast::<bpf_sock_tuple>(),
            (IP - ENDS + 4) as u32,
            OWN_NAMESPACE,
            0,
        );
        if socket.is_null() {
            return 0;
        }
        let mut answer = 0;
        if (&raw const (*socket).state).read_volatile() == LISTENING {
            let (socket, segment) = (socket.cast(), segment.cast::<tcphdr>());
            answer = match question {
                Question::Cookie => {
                    bpf_tcp_gen_syncookie(socket, start, IP as u32, segment, bytes as u32).max(0)
                        as u64
                }
                Question::IsAcknowledged => u64::from(
                    bpf_tcp_check_syncookie(socket, start, IP as u32, segment, TCP_BYTES as u32)
                        == 0,
                ),
            };
        }
        bpf_sk_release(socket.cast());
        answer
    }
}
