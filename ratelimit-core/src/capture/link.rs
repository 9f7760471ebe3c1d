//! The link types of captures, and their conversion to Ethernet frames, which the program reads.
//!
//! If a capture has no Ethernet headers, one is added to each network packet: without addresses,
//! and with the protocol from the capture.

/// The link-layer header, by number of <https://www.tcpdump.org/linktypes.html>.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Link {
    /// Ethernet.
    Ethernet,
    /// BSD loopback: 4 bytes, the address family as the host or (`LOOP`) the network writes it.
    Loopback,
    /// Nothing: IP by its version.
    RawIp,
    /// Linux cooked: 16 bytes, the protocol last.
    Cooked,
    /// Linux cooked, version 2: 20 bytes, the protocol first.
    Cooked2,
    /// Cisco HDLC: 4 bytes, the protocol last.
    CiscoHdlc,
    /// PPP (RFC 1661), with or without the framing of HDLC (RFC 1662), or Cisco HDLC in its place.
    Ppp,
    /// PPP over Ethernet, from its own header on: 6 bytes and the protocol of PPP.
    Pppoe,
    /// Anything else.
    Unknown(i32),
}

const ETHERNET_HEADER_BYTES: usize = 14;
/// The addresses of Cisco HDLC.
const CISCO_UNICAST: u8 = 0x0f;
const CISCO_BROADCAST: u8 = 0x8f;
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
/// Names of link types that are met, and not understood.
const NAMES: [(i32, &str); 7] = [
    (105, "IEEE802_11"),
    (127, "IEEE802_11_RADIOTAP"),
    (189, "USB_LINUX"),
    (192, "PPI"),
    (220, "USB_LINUX_MMAPPED"),
    (239, "NFLOG"),
    (253, "NETLINK"),
];

impl Link {
    /// The kind of a number.
    pub fn from_number(number: i32) -> Self {
        match number {
            0 | 108 => Self::Loopback,
            1 => Self::Ethernet,
            // 12 and 14 are what systems write for 101 in files of their own.
            12 | 14 | 101 | 228 | 229 => Self::RawIp,
            9 | 50 => Self::Ppp,
            51 => Self::Pppoe,
            104 => Self::CiscoHdlc,
            113 => Self::Cooked,
            276 => Self::Cooked2,
            _ => Self::Unknown(number),
        }
    }

    /// Returns the captured packet as an Ethernet frame, and its original length. A frame that has
    /// to be built is stored in `buffer`.
    ///
    /// # Errors
    ///
    /// The name of an unsupported link type.
    pub fn ethernet<'a>(
        self,
        data: &'a [u8],
        wire_bytes: u32,
        buffer: &'a mut Vec<u8>,
    ) -> Result<(&'a [u8], u32), String> {
        let header_bytes = match self {
            Self::Ethernet => return Ok((data, wire_bytes)),
            Self::RawIp => 0,
            Self::Loopback | Self::CiscoHdlc => 4,
            Self::Cooked => 16,
            Self::Cooked2 => 20,
            Self::Ppp => ppp_header_bytes(data),
            Self::Pppoe => 8,
            Self::Unknown(number) => return Err(name(number)),
        };
        buffer.clear();
        // A header that was cut before the protocol makes a frame that is cut before it, too.
        if let Some((header, packet)) = data.split_at_checked(header_bytes) {
            buffer.extend([0; 12]);
            if let Some(protocol) = self.protocol(header, packet) {
                buffer.extend(protocol);
                buffer.extend(packet);
            }
        }
        let added = ETHERNET_HEADER_BYTES.wrapping_sub(header_bytes);
        let wire_bytes = usize::try_from(wire_bytes).unwrap_or(usize::MAX);
        let frame_bytes = wire_bytes.wrapping_add(added).max(buffer.len());
        Ok((buffer, u32::try_from(frame_bytes).unwrap_or(u32::MAX)))
    }

    /// The Ethernet type; `None` where too little was captured to know it.
    fn protocol(self, header: &[u8], packet: &[u8]) -> Option<[u8; 2]> {
        match self {
            Self::Cooked | Self::CiscoHdlc => header.last_chunk().copied(),
            Self::Ppp | Self::Pppoe => match header {
                [.., CISCO_UNICAST | CISCO_BROADCAST, 0, first, second] => Some([*first, *second]),
                [low] | [0xff, 3, low] => Some(of_ppp(0, *low)),
                [.., high, low] => Some(of_ppp(*high, *low)),
                [] => None,
            },
            Self::Cooked2 => header.first_chunk().copied(),
            Self::Ethernet | Self::Loopback | Self::RawIp | Self::Unknown(_) => {
                match packet.first()? >> 4 {
                    4 => Some(IPV4),
                    6 => Some(IPV6),
                    _ => Some([0, 0]),
                }
            }
        }
    }
}

/// The Ethernet type of a protocol of PPP.
const fn of_ppp(high: u8, low: u8) -> [u8; 2] {
    match (high, low) {
        (0, 0x21) => IPV4,
        (0, 0x57) => IPV6,
        _ => [0, 0],
    }
}

/// Returns the bytes before the network packet in a PPP frame. The address and control bytes of
/// HDLC may be left out, and the protocol may be compressed to its second byte, which is odd.
fn ppp_header_bytes(data: &[u8]) -> usize {
    match data {
        [0xff, 3, compressed, ..] if compressed & 1 == 1 => 3,
        [0xff, 3, ..] | [CISCO_UNICAST | CISCO_BROADCAST, 0, ..] => 4,
        [compressed, ..] if compressed & 1 == 1 => 1,
        _ => 2,
    }
}

fn name(number: i32) -> String {
    let name = NAMES.iter().find(|(known, _)| *known == number);
    match name {
        Some((_, name)) => format!("of link type {number} ({name})"),
        None => format!("of link type {number}"),
    }
}
