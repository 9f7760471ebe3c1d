//! Eleven packets, as a capture in both formats.

/// Milliseconds, and the source of a frame of 100 bytes of which the headers were kept.
///
/// With 2 packets a second for a source, the third and the last but one are too many: the two
/// addresses before it are of one /64.
pub const PACKETS: [(u64, Frame); 11] = [
    (0, Frame::V4([198, 51, 100, 1])),
    (100, Frame::V4([198, 51, 100, 1])),
    (200, Frame::V4([198, 51, 100, 1])),
    (300, Frame::V4([198, 51, 100, 2])),
    (400, Frame::V4([192, 0, 2, 10])),
    (500, Frame::Arp),
    (1500, Frame::V4([198, 51, 100, 1])),
    (1600, Frame::V6(1)),
    (1700, Frame::V6(2)),
    (1800, Frame::V6(3)),
    (1750, Frame::V4([198, 51, 100, 2])),
];
const START_SECONDS: u32 = 1_619_605_821;
const WIRE_BYTES: u32 = 100;

#[derive(Clone, Copy)]
pub enum Frame {
    V4([u8; 4]),
    V6(u8),
    Arp,
}

impl Frame {
    /// The first 62 bytes: Ethernet, the network header, and zeros.
    fn bytes(self) -> Vec<u8> {
        let mut bytes = vec![0; 12];
        match self {
            Self::V4(source) => {
                bytes.extend([0x08, 0x00, 0x45, 0, 0, 86, 0, 0, 0, 0, 64, 17, 0, 0]);
                bytes.extend(source);
            }
            Self::V6(last) => {
                bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 46, 17, 64]);
                bytes.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
            }
            Self::Arp => bytes.extend([0x08, 0x06]),
        }
        bytes.resize(62, 0);
        bytes
    }
}

/// Microseconds, little-endian, Ethernet.
pub fn pcap() -> Vec<u8> {
    let packets = PACKETS.map(|(millis, frame)| packet(millis, frame));
    [header(), packets.concat()].concat()
}

pub fn header() -> Vec<u8> {
    numbers(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65535, 1])
}

pub fn packet(millis: u64, frame: Frame) -> Vec<u8> {
    let seconds = START_SECONDS + u32::try_from(millis / 1000).unwrap();
    let micros = u32::try_from(millis % 1000 * 1000).unwrap();
    [numbers(&[seconds, micros, 62, WIRE_BYTES]), frame.bytes()].concat()
}

/// One section, one interface, microseconds.
pub fn pcapng() -> Vec<u8> {
    let section = numbers(&[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28]);
    let interface = numbers(&[1, 20, 1, 65535, 20]);
    let packets = PACKETS.map(|(millis, frame)| {
        let micros = (u64::from(START_SECONDS) * 1000 + millis) * 1000;
        let (high, low) = (
            u32::try_from(micros >> 32).unwrap(),
            u32::try_from(micros & 0xffff_ffff).unwrap(),
        );
        [
            numbers(&[6, 96, 0, high, low, 62, WIRE_BYTES]),
            frame.bytes(),
            vec![0; 2],
            numbers(&[96]),
        ]
        .concat()
    });
    [section, interface, packets.concat()].concat()
}

fn numbers(numbers: &[u32]) -> Vec<u8> {
    numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect()
}
