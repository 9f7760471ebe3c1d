//! The packet inside of a tunnel, where its source is the one to judge.
//!
//! One tunnel is looked into: if it contains another tunnel, the source of that tunnel is the
//! source of the packet. A packet that cannot be looked into is judged by its own source: later
//! fragments, other protocols inside, and headers that are not those of the tunnel.

use zerocopy::{FromBytes, Immutable, Unaligned};

use super::{
    LinkLayer, Payload,
    ethernet::{self, ETHERTYPE_IPV4, ETHERTYPE_IPV6},
    ipv4,
    ipv6::{self, Walk},
    link_layer, payload,
    transport::{Fragment, OFFSET_MAX, UpperLayer},
};
use crate::{Cursor, DropReason, Flow, Ipv6, flow::Content};

/// The most MPLS labels that are looked through.
pub const MPLS_LABELS_MAX: usize = 8;

/// The largest offset of an inner packet in a frame, which the verifier needs to know. It allows
/// for two VLAN tags, IPv6, UDP, GENEVE with all options, and a tagged frame, with a hundred bytes
/// of extension headers.
pub const INNER_OFFSET_MAX: u16 = 471;

const IPV4_IN_IP: u8 = 4;
const IPV6_IN_IP: u8 = 41;
const GRE: u8 = 47;

/// An Ethernet frame in a tunnel.
const ETHERTYPE_BRIDGED: u16 = 0x6558;
const ETHERTYPE_MPLS: u16 = 0x8847;
/// IPv4 that a router redirects to a cache (WCCP), in GRE.
const ETHERTYPE_WCCP: u16 = 0x883e;
/// Labels that the next router has assigned (RFC 5332).
const ETHERTYPE_MPLS_UPSTREAM: u16 = 0x8848;
const ETHERTYPE_PPPOE: u16 = 0x8864;

/// A kind of tunnel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Tunnel {
    /// GRE (RFC 2784, 2890), with IP or Ethernet inside.
    Gre = 0,
    /// IPv4 or IPv6 right in either (RFC 2003, 2473, 4213).
    Ipip = 1,
    /// VXLAN (RFC 7348).
    Vxlan = 2,
    /// GENEVE (RFC 8926).
    Geneve = 3,
    /// MPLS (RFC 3032), with IP inside.
    Mpls = 4,
    /// PPP over Ethernet (RFC 2516).
    Pppoe = 5,
}

impl Tunnel {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::Gre,
        Self::Ipip,
        Self::Vxlan,
        Self::Geneve,
        Self::Mpls,
        Self::Pppoe,
    ];

    /// The word for it.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Gre => "gre",
            Self::Ipip => "ipip",
            Self::Vxlan => "vxlan",
            Self::Geneve => "geneve",
            Self::Mpls => "mpls",
            Self::Pppoe => "pppoe",
        }
    }

    /// Returns the UDP port assigned by IANA; `None` for tunnels without a port.
    pub const fn port(self) -> Option<u16> {
        match self {
            Self::Vxlan => Some(4789),
            Self::Geneve => Some(6081),
            Self::Gre | Self::Ipip | Self::Mpls | Self::Pppoe => None,
        }
    }

    /// The position of its port in the number of [`Tunnels`].
    const fn shift(self) -> u32 {
        match self {
            Self::Vxlan => 16,
            Self::Geneve => 32,
            Self::Gre | Self::Ipip | Self::Mpls | Self::Pppoe => 48,
        }
    }

    const fn bit(self) -> u64 {
        1 << self as u32
    }
}

/// The tunnels that are looked into: a bit each, and above them their ports.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(transparent)]
pub struct Tunnels(u64);

impl Tunnels {
    /// None.
    pub const NONE: Self = Self(0);

    /// Decodes the number.
    #[inline(always)]
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// Returns the bits of the set.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Adds a kind, with its port if it uses one.
    pub const fn with(self, tunnel: Tunnel, port: u16) -> Self {
        Self(self.0 | tunnel.bit() | (port as u64) << tunnel.shift())
    }

    /// Whether the set is empty.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether those of a kind are looked into.
    #[inline(always)]
    pub const fn has(self, tunnel: Tunnel) -> bool {
        self.0 & tunnel.bit() != 0
    }

    /// The port of a kind that uses one.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the port has 16 bits")]
    pub const fn port(self, tunnel: Tunnel) -> u16 {
        (self.0 >> tunnel.shift()) as u16
    }

    #[inline(always)]
    const fn is_at(self, tunnel: Tunnel, port: u16) -> bool {
        self.has(tunnel) && self.port(tunnel) == port
    }

    /// Returns the position of the inner packet in `frame`, a cursor at its beginning. `walk` skips
    /// extension headers, possibly as a subprogram, and `within` keeps the upper layer where the
    /// frame can be read.
    #[inline(always)]
    pub fn inner<'a>(
        self,
        frame: Cursor<'a>,
        link_layer: LinkLayer,
        walk: impl FnOnce(Cursor<'a>, u8) -> Walk,
        within: impl FnOnce(UpperLayer) -> UpperLayer,
    ) -> Inner {
        let mut cursor = frame;
        if self.is_empty() {
            return Inner::NONE;
        }
        let Ok(ethertype) = link_layer::ethertype(&mut cursor, link_layer) else {
            return Inner::NONE;
        };
        let packet = cursor;
        let (upper, bytes) = match ethertype {
            ETHERTYPE_MPLS | ETHERTYPE_MPLS_UPSTREAM if self.has(Tunnel::Mpls) => {
                return behind_labels(cursor);
            }
            ETHERTYPE_PPPOE if self.has(Tunnel::Pppoe) => return behind_pppoe(cursor),
            ETHERTYPE_IPV4 => match ipv4::flow(&mut cursor) {
                Some(flow) => (flow.upper, ipv4::packet_bytes(packet)),
                None => return Inner::NONE,
            },
            ETHERTYPE_IPV6 => match ipv6::flow(&mut cursor, walk) {
                Some(flow) if flow.content == Content::Ordinary => {
                    (flow.upper, ipv6::packet_bytes(packet))
                }
                _ => return Inner::NONE,
            },
            _ => return Inner::NONE,
        };
        if upper.part() == Fragment::Later {
            return Inner::NONE;
        }
        let end = u32::from(packet.offset()).wrapping_add(bytes);
        // Behind its end a frame may be padded with anything, which is not what a first part has
        // there once it is put together.
        let is_cut = upper.is_udp() && upper.part() == Fragment::Tiny;
        if is_cut || u32::from(upper.offset()) > end {
            return Inner::TRUNCATED;
        }
        let upper = within(upper);
        let mut cursor = frame.limited(end);
        cursor.skip(upper.offset() & OFFSET_MAX);
        match upper.protocol() {
            IPV4_IN_IP if self.has(Tunnel::Ipip) => Inner::at(cursor, ETHERTYPE_IPV4),
            IPV6_IN_IP if self.has(Tunnel::Ipip) => Inner::at(cursor, ETHERTYPE_IPV6),
            GRE if self.has(Tunnel::Gre) => behind_gre(cursor),
            _ if upper.is_udp() => self.behind_udp(cursor),
            _ => Inner::NONE,
        }
    }

    #[inline(always)]
    fn behind_udp(self, mut cursor: Cursor<'_>) -> Inner {
        let Some(header) = cursor.take::<UdpHeader>() else {
            return Inner::NONE;
        };
        let port = u16::from_be_bytes(header.destination);
        if self.is_at(Tunnel::Vxlan, port) {
            behind_vxlan(cursor)
        } else if self.is_at(Tunnel::Geneve, port) {
            behind_geneve(cursor)
        } else {
            Inner::NONE
        }
    }

    /// Returns the frame of the packet to judge, a cursor at its beginning, and its first header.
    /// `None` if it cannot be read.
    pub fn judged(
        self,
        frame: Cursor<'_>,
        link_layer: LinkLayer,
    ) -> Option<(Cursor<'_>, LinkLayer)> {
        let inner = self.inner(frame, link_layer, ipv6::walk, |upper| upper);
        if inner == Inner::NONE {
            return Some((frame, link_layer));
        }
        let mut cursor = frame;
        network(&mut cursor, link_layer, inner).ok()?;
        Some((cursor.as_front(), LinkLayer::None))
    }
}

/// The position of the packet inside a tunnel, as a number that a subprogram in the kernel can
/// return.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Inner(u32);

impl Inner {
    /// It is no tunnel that is looked into.
    pub const NONE: Self = Self(0);

    const IPV4: u32 = 1 << 16;
    const IPV6: u32 = 2 << 16;
    const TRUNCATED: Self = Self(3 << 16);
    const VLAN_DEPTH: Self = Self(4 << 16);
    const DEPTH: Self = Self(5 << 16);
    const WHAT: u32 = 7 << 16;

    /// Creates the value from its number.
    #[inline(always)]
    pub const fn from_number(number: u32) -> Self {
        Self(number)
    }

    /// Returns the value as a number.
    #[inline(always)]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Returns the offset of the packet in the frame; 0 if there is no readable packet.
    #[inline(always)]
    pub const fn offset(self) -> u16 {
        (self.0 & OFFSET_MASK) as u16
    }

    /// Marks the flow of an inner packet: its hop limit does not prove that it was sent on the
    /// link.
    #[inline(always)]
    pub fn marked(self, mut flow: Flow<Ipv6>) -> Flow<Ipv6> {
        if self != Self::NONE && flow.content == Content::NeighbourDiscovery {
            flow.content = Content::Ordinary;
        }
        flow
    }

    /// The packet at `cursor`, of this type.
    #[inline(always)]
    fn at(mut cursor: Cursor<'_>, ethertype: u16) -> Self {
        let mut ethertype = ethertype;
        if ethertype == ETHERTYPE_BRIDGED {
            ethertype = match ethernet::ethertype(&mut cursor) {
                Ok(ethertype) => ethertype,
                Err(DropReason::VlanDepth) => return Self::VLAN_DEPTH,
                Err(_) => return Self::TRUNCATED,
            };
        }
        let offset = cursor.offset();
        let (what, is_whole) = match ethertype {
            ETHERTYPE_IPV4 => (
                Self::IPV4,
                cursor.take::<[u8; ipv4::HEADER_BYTES as usize]>().is_some(),
            ),
            ETHERTYPE_IPV6 => (
                Self::IPV6,
                cursor.take::<[u8; ipv6::HEADER_BYTES as usize]>().is_some(),
            ),
            _ => return Self::NONE,
        };
        if !is_whole {
            Self::TRUNCATED
        } else if offset > INNER_OFFSET_MAX {
            Self::DEPTH
        } else {
            Self(what | u32::from(offset))
        }
    }
}

/// More than any offset that there is.
const OFFSET_MASK: u32 = 511;
const _: () = assert!(INNER_OFFSET_MAX as u32 + ipv6::HEADER_BYTES as u32 == OFFSET_MASK);

/// Moves to the network header of the packet that is judged: behind the headers of the link layer,
/// or to the one inside of a tunnel.
///
/// # Errors
///
/// If the payload cannot be determined.
#[inline(always)]
pub fn network(
    cursor: &mut Cursor<'_>,
    link_layer: LinkLayer,
    inner: Inner,
) -> Result<Payload, DropReason> {
    if inner == Inner::NONE {
        return payload(cursor, link_layer);
    }
    cursor.skip(inner.offset());
    match inner.0 & Inner::WHAT {
        Inner::IPV4 => Ok(Payload::Ipv4),
        Inner::IPV6 => Ok(Payload::Ipv6),
        what if what == Inner::TRUNCATED.0 => Err(DropReason::TunnelTruncated),
        what if what == Inner::VLAN_DEPTH.0 => Err(DropReason::VlanDepth),
        _ => Err(DropReason::TunnelDepth),
    }
}

#[derive(FromBytes, Immutable, Unaligned)]
#[repr(C)]
struct UdpHeader {
    source: [u8; 2],
    destination: [u8; 2],
    length: [u8; 2],
    checksum: [u8; 2],
}

#[derive(FromBytes, Immutable, Unaligned)]
#[repr(C)]
struct GreHeader {
    flags: u8,
    version: u8,
    protocol: [u8; 2],
}

const GRE_CHECKSUM: u8 = 0x80;
/// A source route (RFC 1701), which no network stack takes.
const GRE_ROUTING: u8 = 0x40;
const GRE_KEY: u8 = 0x20;
const GRE_SEQUENCE: u8 = 0x10;
/// Version 1 is that of PPTP (RFC 2637).
const GRE_VERSION: u8 = 0x07;
const IPV4_VERSION: u8 = 4;

#[inline(always)]
fn behind_gre(mut cursor: Cursor<'_>) -> Inner {
    let Some(header) = cursor.take::<GreHeader>() else {
        return Inner::TRUNCATED;
    };
    if header.flags & GRE_ROUTING != 0 || header.version & GRE_VERSION != 0 {
        return Inner::NONE;
    }
    let mut ethertype = u16::from_be_bytes(header.protocol);
    if ethertype == ETHERTYPE_WCCP && (header.flags, header.version) == (0, 0) {
        // Version 2 has a header of 4 bytes in front of the packet (`gre_parse_header` of Linux).
        let mut behind = cursor;
        match behind.take::<[u8; 4]>() {
            Some([first, ..]) if first >> 4 != IPV4_VERSION => cursor = behind,
            Some(_) => {}
            None => return Inner::TRUNCATED,
        }
        ethertype = ETHERTYPE_IPV4;
    }
    // The checksum comes with two bytes that are reserved.
    for option in [GRE_CHECKSUM, GRE_KEY, GRE_SEQUENCE] {
        if header.flags & option != 0 {
            cursor.skip(4);
        }
    }
    Inner::at(cursor, ethertype)
}

#[derive(FromBytes, Immutable, Unaligned)]
#[repr(C)]
struct VxlanHeader {
    flags: u8,
    reserved: [u8; 3],
    network: [u8; 4],
}

/// The network is valid: without this, it is no VXLAN.
const VXLAN_NETWORK: u8 = 0x08;

#[inline(always)]
fn behind_vxlan(mut cursor: Cursor<'_>) -> Inner {
    match cursor.take::<VxlanHeader>() {
        Some(header) if header.flags & VXLAN_NETWORK != 0 => Inner::at(cursor, ETHERTYPE_BRIDGED),
        Some(_) => Inner::NONE,
        None => Inner::TRUNCATED,
    }
}

#[derive(FromBytes, Immutable, Unaligned)]
#[repr(C)]
struct GeneveHeader {
    version_and_length: u8,
    flags: u8,
    protocol: [u8; 2],
    network: [u8; 4],
}

#[inline(always)]
fn behind_geneve(mut cursor: Cursor<'_>) -> Inner {
    let Some(header) = cursor.take::<GeneveHeader>() else {
        return Inner::TRUNCATED;
    };
    if header.version_and_length >> 6 != 0 {
        return Inner::NONE;
    }
    let words = header.version_and_length & 0x3f;
    cursor.skip(u16::from(words).wrapping_mul(4));
    Inner::at(cursor, u16::from_be_bytes(header.protocol))
}

/// The bit of the last label, in the third byte of each.
const BOTTOM_OF_STACK: u8 = 1;

/// The version number identifies the inner packet: a control word of Ethernet over MPLS has none
/// (RFC 4385).
#[inline(always)]
fn behind_labels(mut cursor: Cursor<'_>) -> Inner {
    for _ in 0..MPLS_LABELS_MAX {
        let Some([_, _, label, _]) = cursor.take::<[u8; 4]>() else {
            return Inner::TRUNCATED;
        };
        if label & BOTTOM_OF_STACK != 0 {
            return match link_layer::ethertype_by_version(cursor) {
                Some(ethertype) => Inner::at(cursor, ethertype),
                None => Inner::TRUNCATED,
            };
        }
    }
    Inner::DEPTH
}

#[derive(FromBytes, Immutable, Unaligned)]
#[repr(C)]
struct PppoeHeader {
    version_and_type: u8,
    code: u8,
    session: [u8; 2],
    length: [u8; 2],
}

const PPPOE_VERSION_AND_TYPE: u8 = 0x11;
const PPPOE_SESSION: u8 = 0;
const PPP_IPV4: u8 = 0x21;
const PPP_IPV6: u8 = 0x57;

#[inline(always)]
fn behind_pppoe(mut cursor: Cursor<'_>) -> Inner {
    let Some(header) = cursor.take::<PppoeHeader>() else {
        return Inner::TRUNCATED;
    };
    // No such header is ever sent, and Linux takes it for one of a session.
    if header.version_and_type != PPPOE_VERSION_AND_TYPE || header.code != PPPOE_SESSION {
        return Inner::TRUNCATED;
    }
    let Some([mut protocol]) = cursor.take::<[u8; 1]>().copied() else {
        return Inner::TRUNCATED;
    };
    // A first byte that is even is left out where both ends agree (RFC 1661, 6.5).
    if protocol == 0 {
        match cursor.take::<[u8; 1]>() {
            Some([second]) => protocol = *second,
            None => return Inner::TRUNCATED,
        }
    }
    match protocol {
        PPP_IPV4 => Inner::at(cursor, ETHERTYPE_IPV4),
        PPP_IPV6 => Inner::at(cursor, ETHERTYPE_IPV6),
        _ => Inner::NONE,
    }
}
