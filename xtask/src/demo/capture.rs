//! A capture of traffic, to be sent again.

use std::{
    fs::File,
    io::{BufReader, Read},
    path::Path,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use pcap_file::{DataLink, pcap::PcapReader};

use super::frame::HOST_MAC;

/// A frame, and when it came.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Captured {
    /// The time since the first one.
    pub after: Duration,
    /// The frame, to the host of the demo.
    pub frame: Vec<u8>,
}

/// Reads a file of the classic pcap format.
pub fn open(path: &Path) -> Result<Vec<Captured>> {
    let read = || read(BufReader::new(File::open(path)?));
    read().with_context(|| format!("reading the capture {}", path.display()))
}

/// Nothing in a frame is changed but where it goes: without that, the host would not take it for its own.
fn read(source: impl Read) -> Result<Vec<Captured>> {
    let mut reader = PcapReader::new(source)?;
    let link = reader.header().datalink;
    if link != DataLink::ETHERNET {
        bail!("its frames are not Ethernet but {link:?}");
    }
    let mut start = None;
    let mut frames = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let packet = packet.with_context(|| format!("frame {}", frames.len() + 1))?;
        let mut frame = packet.data.into_owned();
        let Some(destination) = frame.first_chunk_mut() else {
            bail!("frame {} has no Ethernet header", frames.len() + 1);
        };
        *destination = HOST_MAC;
        let start = *start.get_or_insert(packet.timestamp);
        frames.push(Captured {
            after: packet.timestamp.saturating_sub(start),
            frame,
        });
    }
    Ok(frames)
}

#[cfg(test)]
mod tests {
    use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};

    use super::*;

    #[test]
    fn frames_keep_their_pace_and_all_bytes_but_the_destination() {
        let file = file(DataLink::ETHERNET, &[(5_000, [7; 60]), (5_250, [8; 60])]);
        let expected = [(0, 7), (250, 8)].map(|(millis, byte)| Captured {
            after: Duration::from_millis(millis),
            frame: [&HOST_MAC[..], &[byte; 54]].concat(),
        });
        assert_eq!(read(&file[..]).unwrap(), expected);
    }

    #[test]
    fn a_frame_from_before_the_first_is_sent_at_once() {
        let file = file(DataLink::ETHERNET, &[(5_000, [7; 60]), (4_000, [8; 60])]);
        assert_eq!(read(&file[..]).unwrap()[1].after, Duration::ZERO);
    }

    #[test]
    fn what_is_not_a_capture_of_ethernet_is_refused() {
        assert!(read(&b"no capture, but long enough for one"[..]).is_err());
        let error = read(&file(DataLink::IPV4, &[])[..]).unwrap_err();
        assert_eq!(error.to_string(), "its frames are not Ethernet but IPV4");
    }

    #[test]
    fn a_capture_that_ends_within_a_frame_is_refused() {
        let mut file = file(DataLink::ETHERNET, &[(5_000, [7; 60])]);
        file.pop();
        assert!(read(&file[..]).is_err());
    }

    /// A capture with frames of (milliseconds, bytes).
    fn file(datalink: DataLink, frames: &[(u64, [u8; 60])]) -> Vec<u8> {
        let header = PcapHeader {
            datalink,
            ..PcapHeader::default()
        };
        let mut writer = PcapWriter::with_header(Vec::new(), header).unwrap();
        for (millis, frame) in frames {
            let packet = PcapPacket::new(Duration::from_millis(*millis), 60, frame);
            writer.write_packet(&packet).unwrap();
        }
        writer.into_writer()
    }
}
