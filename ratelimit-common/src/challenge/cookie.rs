//! The cookie of an answer: a number that cannot be known without the key until it is received.
//!
//! It is keyed over both ends and the time, so it is useless for another source, another
//! connection, or later. The time is included as a slot. Cookies of the current and the previous
//! slot are accepted, so each is valid for at least 69 s. A forged reset guesses one with a
//! probability of 2^-31.

use crate::{Address, Instant, address::words, parse::Connection};

use super::siphash;

/// A slot of time: 2^36 ns, 69 s.
const SLOT_SHIFT: u32 = 36;

/// The key of cookies.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Key(pub [u64; 2]);

/// The hashed content of a cookie: both ends, and the slot of time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct Message(pub [u64; 5]);

/// The cookie of a message, as in a segment.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "a cookie has 32 bits")]
pub fn hash(key: Key, message: &Message) -> u32 {
    siphash::hash(key.0, message.0) as u32
}

/// The message of a connection at `now`.
#[inline(always)]
pub fn message<A: Address>(connection: &Connection<A>, now: Instant) -> Message {
    of_slot(connection, slot(now))
}

/// Whether this is the cookie of a connection, and not expired. `hash` makes a cookie of a message.
#[inline(always)]
pub fn is_valid<A: Address>(
    connection: &Connection<A>,
    cookie: u32,
    now: Instant,
    hash: impl Fn(&Message) -> u32,
) -> bool {
    let slot = slot(now);
    cookie == hash(&of_slot(connection, slot))
        || cookie == hash(&of_slot(connection, slot.wrapping_sub(1)))
}

#[inline(always)]
fn slot(now: Instant) -> u64 {
    now.as_nanos().wrapping_shr(SLOT_SHIFT)
}

#[inline(always)]
fn of_slot<A: Address>(connection: &Connection<A>, slot: u64) -> Message {
    let [source, destination] = connection.addresses.map(words);
    let [from, to] = connection.ports.map(u16::from_ne_bytes);
    let ports = u64::from(from) | u64::from(to).wrapping_shl(16);
    let last = ports | slot.wrapping_shl(32);
    Message([source[0], source[1], destination[0], destination[1], last])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Ipv4, Ipv6};

    const SLOT: u64 = 1 << SLOT_SHIFT;
    const KEY: Key = Key([7, 9]);

    proptest! {
        #[test]
        fn a_cookie_is_good_for_a_slot_and_for_its_connection_alone(
            key: [u64; 2], source: [u8; 4], destination: [u8; 4], ports: [[u8; 2]; 2],
            at in 0..1_u64 << 60, later in 0..4 * SLOT, bit in 0_usize..96,
        ) {
            let key = Key(key);
            let connection = |source, destination, ports| Connection {
                addresses: [Ipv4::new(source), Ipv4::new(destination)],
                ports,
            };
            let asked = connection(source, destination, ports);
            let cookie = hash(key, &message(&asked, Instant::from_nanos(at)));
            let valid = |of: &Connection<Ipv4>, at| {
                is_valid(of, cookie, Instant::from_nanos(at), |it| hash(key, it))
            };
            if later <= SLOT {
                prop_assert!(valid(&asked, at + later));
            }
            if later >= 2 * SLOT {
                prop_assert!(!valid(&asked, at + later));
            }
            let mut bytes = [
                source,
                destination,
                [ports[0][0], ports[0][1], ports[1][0], ports[1][1]],
            ];
            bytes[bit / 32][bit / 8 % 4] ^= 1 << (bit % 8);
            let [source, destination, [a, b, c, d]] = bytes;
            prop_assert!(!valid(&connection(source, destination, [[a, b], [c, d]]), at));
            let other = Key([key.0[0] ^ 1, key.0[1]]);
            prop_assert!(!is_valid(&asked, cookie, Instant::from_nanos(at), |it| hash(other, it)));
        }
    }

    #[test]
    fn addresses_of_ipv6_count_with_all_their_bits() {
        let at = Instant::from_nanos(5 * SLOT);
        let cookie = |source| {
            let addresses = [Ipv6::new(source), Ipv6::new([2; 16])];
            let ports = [[1, 2], [0, 80]];
            hash(KEY, &message(&Connection { addresses, ports }, at))
        };
        for byte in 0..16 {
            let mut other = [1; 16];
            other[byte] = 3;
            assert_ne!(cookie([1; 16]), cookie(other));
        }
    }
}
