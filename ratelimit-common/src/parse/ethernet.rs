//! The Ethernet header and its VLAN tags (IEEE 802.1Q, 802.1ad).

use zerocopy::{FromBytes, Immutable, Unaligned};

use crate::{Cursor, DropReason, class::NO_VLAN};

/// The most VLAN tags that are parsed: a service tag and a customer tag (802.1ad).
pub const VLAN_TAGS_MAX: usize = 2;

/// The type of a frame that carries IPv4.
pub const ETHERTYPE_IPV4: u16 = 0x0800;
/// The type of a frame that carries IPv6.
pub const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_QINQ: u16 = 0x88a8;
/// The service tag of equipment that predates 802.1ad.
const ETHERTYPE_QINQ_OLD: u16 = 0x9100;

/// The bits of a tag that name the VLAN.
const VLAN_ID: u16 = 0x0fff;

#[derive(FromBytes, Immutable, Unaligned)]
#[repr(C)]
struct Ethernet {
    destination: [u8; 6],
    source: [u8; 6],
    ethertype: [u8; 2],
}

#[derive(FromBytes, Immutable, Unaligned)]
#[repr(C)]
struct Vlan {
    control: [u8; 2],
    ethertype: [u8; 2],
}

/// Skips the Ethernet header and its tags, and returns the type of the payload.
///
/// # Errors
///
/// If the payload cannot be determined.
#[inline(always)]
pub fn ethertype(cursor: &mut Cursor<'_>) -> Result<u16, DropReason> {
    let header: &Ethernet = cursor.take().ok_or(DropReason::Truncated)?;
    // Most frames. The bytes are compared before they are swapped, or LLVM would compare all kinds
    // of tags first.
    for usual in [ETHERTYPE_IPV4, ETHERTYPE_IPV6] {
        if header.ethertype == usual.to_be_bytes() {
            return Ok(usual);
        }
    }
    let mut ethertype = u16::from_be_bytes(header.ethertype);
    for _ in 0..VLAN_TAGS_MAX {
        if !is_vlan(ethertype) {
            break;
        }
        let tag: &Vlan = cursor.take().ok_or(DropReason::Truncated)?;
        ethertype = u16::from_be_bytes(tag.ethertype);
    }
    if is_vlan(ethertype) {
        return Err(DropReason::VlanDepth);
    }
    Ok(ethertype)
}

/// The outermost VLAN of the frame at `cursor`, or [`NO_VLAN`]. A priority tag (802.1p) has the
/// VLAN 0.
#[inline(always)]
pub fn vlan(mut cursor: Cursor<'_>) -> u32 {
    match cursor.take::<Ethernet>() {
        Some(header) if is_vlan(u16::from_be_bytes(header.ethertype)) => {}
        _ => return NO_VLAN,
    }
    cursor.take::<Vlan>().map_or(NO_VLAN, |tag| {
        u32::from(u16::from_be_bytes(tag.control) & VLAN_ID)
    })
}

#[inline(always)]
const fn is_vlan(ethertype: u16) -> bool {
    matches!(
        ethertype,
        ETHERTYPE_VLAN | ETHERTYPE_QINQ | ETHERTYPE_QINQ_OLD
    )
}
