//! Malformed frames: shapes with bytes flipped, cut off, or inserted.

use fastrand::Rng;

use crate::packet::{ETHERNET_BYTES, QINQ, QINQ_OLD, VLAN};

/// The part of a frame that contains its headers.
const HEADERS: usize = 96;

/// Numbers that mean something in an Ethernet, VLAN, IPv4 or IPv6 header.
const NUMBERS: [u8; 24] = [
    0, 1, 4, 6, 17, 41, 43, 44, 47, 50, 51, 58, 59, 60, 64, 128, 132, 133, 135, 137, 139, 140, 254,
    255,
];

const ETHERTYPES: [u16; 6] = [0x0800, 0x86dd, VLAN, QINQ, QINQ_OLD, 0x0806];

/// Changes `frame` in one of the ways, or in none.
pub fn mutate(rng: &mut Rng, frame: &mut Vec<u8>) {
    match rng.u8(..16) {
        0..3 => {}
        3..6 => flip(rng, frame),
        6..9 => write_number(rng, frame),
        9 => write_ethertype(rng, frame),
        10 | 11 => cut(rng, frame),
        12 => insert_tags(rng, frame),
        13 => insert_bytes(rng, frame),
        14 => grow(rng, frame),
        _ => scramble(rng, frame),
    }
    // Shorter than its Ethernet header is no frame to the kernel.
    frame.resize(frame.len().max(ETHERNET_BYTES), 0);
}

fn flip(rng: &mut Rng, frame: &mut [u8]) {
    for _ in 0..rng.u8(1..4) {
        let at = position(rng, frame);
        frame[at] ^= 1 << rng.u8(..8);
    }
}

fn write_number(rng: &mut Rng, frame: &mut [u8]) {
    for _ in 0..rng.u8(1..4) {
        let at = position(rng, frame);
        frame[at] = choose(rng, &NUMBERS);
    }
}

fn write_ethertype(rng: &mut Rng, frame: &mut [u8]) {
    let at = choose(rng, &[12, 12, 16, 20]);
    if let Some(place) = frame.get_mut(at..at + 2) {
        place.copy_from_slice(&choose(rng, &ETHERTYPES).to_be_bytes());
    }
}

fn cut(rng: &mut Rng, frame: &mut Vec<u8>) {
    frame.truncate(position(rng, frame));
}

fn insert_tags(rng: &mut Rng, frame: &mut Vec<u8>) {
    for _ in 0..rng.u8(1..4) {
        let [high, low] = choose(rng, &[VLAN, QINQ, QINQ_OLD]).to_be_bytes();
        frame.splice(12..12, [high, low, rng.u8(..), rng.u8(..)]);
    }
}

/// Moves a header back by 8 bytes, the smallest IPv6 extension header.
fn insert_bytes(rng: &mut Rng, frame: &mut Vec<u8>) {
    let at = position(rng, frame);
    let bytes = [(); 8].map(|()| choose(rng, &NUMBERS));
    let count = choose(rng, &[1, 2, 4, 8, 8, 8]);
    frame.splice(at..at, bytes.into_iter().take(count));
}

fn grow(rng: &mut Rng, frame: &mut Vec<u8>) {
    let bytes = if rng.u8(..8) == 0 {
        rng.usize(..9100)
    } else {
        rng.usize(..600)
    };
    let filling = choose(rng, &NUMBERS);
    frame.resize(bytes.max(frame.len()), filling);
}

/// Keeps the Ethernet header at most.
fn scramble(rng: &mut Rng, frame: &mut Vec<u8>) {
    frame.truncate(rng.usize(ETHERNET_BYTES..150));
    rng.fill(&mut frame[ETHERNET_BYTES..]);
}

fn position(rng: &mut Rng, frame: &[u8]) -> usize {
    rng.usize(..frame.len().min(HEADERS))
}

/// One of `choices`.
pub fn choose<T: Copy>(rng: &mut Rng, choices: &[T]) -> T {
    choices[rng.usize(..choices.len())]
}
