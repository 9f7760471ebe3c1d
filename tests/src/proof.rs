//! The packet by which a source proves itself, as its network stack would send it.

use ratelimit_common::{
    Address, Cursor, Instant,
    challenge::{
        ChallengeState, Key,
        answer::{self, Front},
        cookie::{self, Message},
        query,
    },
    parse::{LinkLayer, ipv6},
};

use crate::packet::{ETHERNET_BYTES, RST};

/// The cookies of a program without a daemon, on a host without listeners.
struct Unkeyed;

impl<A: Address> ChallengeState<A> for Unkeyed {
    fn cookie(&self, message: &Message) -> u32 {
        cookie::hash(Key::default(), message)
    }
}

/// Bytes of a TCP header.
const TCP_BYTES: usize = 20;

/// The answer to a `question`, where cookies have the key of a program that no daemon has loaded.
pub fn answer(question: &[u8], link_layer: LinkLayer, now: Instant) -> Option<Vec<u8>> {
    let mut frame = question.to_vec();
    let range = frame.as_mut_ptr_range();
    // SAFETY: the range is that of a live vector, and the cursor reads another one.
    let front = unsafe { Front::from_raw(range.start, range.end) };
    let cursor = Cursor::new(question);
    let bytes = answer::write(cursor, &front, link_layer, ipv6::walk, &Unkeyed, now)?;
    frame.truncate(bytes.into());
    Some(frame)
}

/// The answer to a query of DNS.
pub fn answer_to_query(question: &[u8], link_layer: LinkLayer) -> Option<Vec<u8>> {
    let mut frame = question.to_vec();
    let range = frame.as_mut_ptr_range();
    // SAFETY: as above.
    let front = unsafe { Front::from_raw(range.start, range.end) };
    let cursor = Cursor::new(question);
    let bytes = answer::write_query(
        cursor,
        &front,
        link_layer,
        |frame, link_layer| query::question_bytes(frame, link_layer, query::name_bytes),
        answer::sum,
    )?;
    frame.truncate(bytes.into());
    Some(frame)
}

/// The reset that a stack sends after that answer.
pub fn of(question: &[u8], link_layer: LinkLayer, now: Instant) -> Option<Vec<u8>> {
    let mut frame = answer(question, link_layer, now)?;
    let segment = frame.len() - TCP_BYTES;
    // A header of IPv6 is twice as long as one of IPv4.
    let width = if is_ipv6(&frame[..segment], link_layer) {
        16
    } else {
        4
    };
    swap(&mut frame[segment - 2 * width..segment], width);
    swap(&mut frame[segment..segment + 4], 2);
    if link_layer == LinkLayer::Ethernet {
        swap(&mut frame[..12], 6);
    }
    frame.copy_within(segment + 8..segment + 12, segment + 4);
    frame[segment + 13] = RST;
    Some(frame)
}

fn is_ipv6(headers: &[u8], link_layer: LinkLayer) -> bool {
    let front = match link_layer {
        LinkLayer::Ethernet => ETHERNET_BYTES,
        LinkLayer::None => 0,
    };
    headers.len() - front >= 40
}

fn swap(ends: &mut [u8], width: usize) {
    let (one, other) = ends.split_at_mut(width);
    one.swap_with_slice(other);
}
