//! A pcapng file (draft-ietf-opsawg-pcapng): blocks for the section, each interface, each packet
//! with its reason as a comment, and at the end how many packets are not in it. Frames without an
//! Ethernet header get one without addresses.

use std::{borrow::Cow, collections::BTreeMap};

use pcap_parser::{
    EnhancedPacketBlock, InterfaceDescriptionBlock, InterfaceStatisticsBlock, Linktype, OptionCode,
    PcapNGOption, SectionHeaderBlock, ToVec,
};
use ratelimit_common::{
    DropReason, Instant,
    capture::{Head, Tally},
    parse::LinkLayer,
};
use ratelimit_core::{api::CaptureRequest, capture::Link};

use crate::clock;

/// `if_tsresol`: times are nanoseconds, 10^-9 s.
const NANOSECONDS: u8 = 9;
/// The bytes of an Ethernet header.
const ETHERNET_HEADER: u32 = 14;
/// The name of the program that wrote the file, an option of the section.
const USER_APPLICATION: OptionCode = OptionCode::ShbUserAppl;

/// Makes the blocks.
pub struct Writer {
    /// Slot, name and snap length of each interface, in the order of their blocks.
    interfaces: Vec<(u32, String)>,
    snap: u32,
    filter: String,
    /// Offset of the wall clock from the kernel's clock in nanoseconds. Read once, so that packets
    /// stay in order.
    ahead_ns: i128,
}

impl Writer {
    /// Creates a file for the requested packets from these interfaces.
    pub fn new(request: &CaptureRequest, interfaces: &BTreeMap<u32, String>) -> Self {
        let wall = clock::wall().as_nanosecond();
        let interfaces = interfaces.iter();
        Self {
            interfaces: interfaces
                .map(|(slot, name)| (*slot, name.clone()))
                .collect(),
            snap: request.snap,
            filter: request.to_string(),
            ahead_ns: wall - i128::from(clock::now().as_nanos()),
        }
    }

    /// The blocks at the front.
    pub fn header(&self) -> Vec<u8> {
        let application = concat!("ratelimit ", env!("CARGO_PKG_VERSION"));
        let mut section = SectionHeaderBlock {
            block_type: 0,
            block_len1: 0,
            bom: 0,
            major_version: 1,
            minor_version: 0,
            section_len: -1,
            options: vec![
                option(USER_APPLICATION, application.as_bytes()),
                option(OptionCode::Comment, self.filter.as_bytes()),
            ],
            block_len2: 0,
        };
        let mut bytes = block(&mut section);
        for (_, name) in &self.interfaces {
            let mut interface = InterfaceDescriptionBlock {
                block_type: 0,
                block_len1: 0,
                linktype: Linktype::ETHERNET,
                reserved: 0,
                // A frame without an Ethernet header gets one.
                snaplen: self.snap.saturating_add(ETHERNET_HEADER),
                options: vec![
                    option(OptionCode::IfName, name.as_bytes()),
                    option(OptionCode::IfTsresol, &[NANOSECONDS]),
                ],
                block_len2: 0,
                if_tsresol: NANOSECONDS,
                if_tsoffset: 0,
            };
            bytes.extend(block(&mut interface));
        }
        bytes
    }

    /// The block of a packet; none of one whose interface is not known.
    pub fn packet(&self, head: &Head, frame: &[u8]) -> Vec<u8> {
        let Some(interface) = self.number(head.interface) else {
            return Vec::new();
        };
        let reason = DropReason::from_number(head.reason).map_or("unknown", DropReason::label);
        let comment = match head.observed {
            0 => format!("dropped: {reason}"),
            _ => format!("passed in a dry run, would be dropped: {reason}"),
        };
        let (ts_high, ts_low) = self.time(head.at_ns);
        let data = &frame[..frame.len().min(head.kept_bytes as usize)];
        let link = match LinkLayer::from_number(head.link_layer.into()) {
            LinkLayer::Ethernet => Link::Ethernet,
            LinkLayer::None => Link::RawIp,
        };
        let mut buffer = Vec::new();
        let Ok((data, frame_bytes)) = link.ethernet(data, head.frame_bytes, &mut buffer) else {
            return Vec::new();
        };
        block(&mut EnhancedPacketBlock {
            block_type: 0,
            block_len1: 0,
            if_id: interface,
            ts_high,
            ts_low,
            caplen: u32::try_from(data.len()).unwrap_or(u32::MAX),
            origlen: frame_bytes,
            data: &padded(data),
            options: vec![option(OptionCode::Comment, comment.as_bytes())],
            block_len2: 0,
        })
    }

    /// Returns the block with the number of an interface's packets that are not in the file.
    pub fn statistics(&self, slot: u32, tally: &Tally, now: Instant) -> Vec<u8> {
        let Some(interface) = self.number(slot) else {
            return Vec::new();
        };
        let (ts_high, ts_low) = self.time(now.as_nanos());
        let count = |code, count: u64| option(code, &count.to_le_bytes());
        block(&mut InterfaceStatisticsBlock {
            block_type: 0,
            block_len1: 0,
            if_id: interface,
            ts_high,
            ts_low,
            options: vec![
                count(OptionCode::IsbFilterAccept, tally.matched),
                count(OptionCode::IsbOsDrop, tally.over + tally.lost),
                count(OptionCode::IsbUsrDeliv, tally.sent),
            ],
            block_len2: 0,
        })
    }

    fn number(&self, slot: u32) -> Option<u32> {
        let place = self.interfaces.iter().position(|(own, _)| *own == slot)?;
        u32::try_from(place).ok()
    }

    /// Nanoseconds since the epoch, the upper and the lower half.
    fn time(&self, at_ns: u64) -> (u32, u32) {
        let nanos = u64::try_from(self.ahead_ns + i128::from(at_ns)).unwrap_or_default();
        #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
        ((nanos >> 32) as u32, nanos as u32)
    }
}

fn block(block: &mut impl ToVec) -> Vec<u8> {
    block.to_vec().expect("memory takes it")
}

/// An option; its value is padded by the crate, its length is not.
fn option(code: OptionCode, value: &[u8]) -> PcapNGOption<'static> {
    PcapNGOption {
        code,
        len: u16::try_from(value.len()).unwrap_or(u16::MAX),
        value: Cow::Owned(padded(value)),
    }
}

fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().next_multiple_of(4), 0);
    padded
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratelimit_core::capture::{Capture, CaptureError};

    const FRAME: [u8; 61] = [7; 61];

    #[test]
    fn a_capture_is_read_by_the_simulation() {
        let interfaces = BTreeMap::from([(3, "eth0".to_owned()), (5, "eth1".to_owned())]);
        let writer = Writer::new(&CaptureRequest::default(), &interfaces);
        let head = |interface| Head {
            at_ns: clock::now().as_nanos(),
            frame_bytes: 1_514,
            kept_bytes: 61,
            interface,
            reason: DropReason::Limited as u8,
            observed: 0,
            link_layer: 0,
            reserved: 0,
        };
        let file = [
            writer.header(),
            writer.packet(&head(5), &FRAME),
            writer.packet(&head(4), &FRAME),
            writer.packet(&head(3), &FRAME),
            writer.statistics(5, &Tally::default(), clock::now()),
        ]
        .concat();
        let before = clock::wall().as_nanosecond();
        let mut frames = Vec::new();
        let mut capture = Capture::open(&file[..]).unwrap();
        let read = capture.read(|packet| {
            let age = before - i128::from(packet.time_ns.unwrap());
            assert!((-1_000_000_000..60_000_000_000).contains(&age), "{age}");
            frames.push((packet.frame.to_vec(), packet.frame_bytes));
            Ok::<(), CaptureError>(())
        });
        read.unwrap();
        let frame = (FRAME.to_vec(), 1_514);
        assert_eq!(
            frames,
            [frame.clone(), frame],
            "the one of no interface is left out"
        );
    }
}
