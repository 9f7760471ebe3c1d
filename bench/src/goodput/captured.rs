//! The requests of a real attack, turned at the web server: a capture that is sent again and again.

use std::{fs::File, path::Path};

use anyhow::{Context, Result, ensure};
use ratelimit_core::capture::Capture;
use ratelimit_tests::packet::{ETHERNET_BYTES, IPV4_BYTES, checksum};

use super::servers::SERVER;

/// A SYN flood from 37,623 forged sources.
const CAPTURE: &str = "../shared/captures/pkt.TCP.synflood.spoofed.pcap";
/// The root of the repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The address of the interface, that of a router to the forged sources, and the type of IPv4.
pub const ETHERNET: [u8; ETHERNET_BYTES] = *b"\x02\0\0\0\0\x02\x02\0\0\0\0\x03\x08\0";
/// A header of IPv4 without options.
const PLAIN: u8 = 0x45;
const TCP: u8 = 6;
const TCP_BYTES: usize = 20;

/// The bytes of each frame.
pub const FRAME_BYTES: usize = 60;

/// A frame.
pub type CapturedFrame = [u8; FRAME_BYTES];

/// Reads the capture next to the repository. `None`, with a message, if it is missing.
pub fn read() -> Result<Option<Vec<CapturedFrame>>> {
    let path = Path::new(ROOT).join(CAPTURE);
    if !path.exists() {
        eprintln!("SKIPPED: goodput: needs the capture {CAPTURE}");
        return Ok(None);
    }
    let frames = frames(&path).with_context(|| format!("reading {CAPTURE}"))?;
    ensure!(!frames.is_empty(), "{CAPTURE} has no TCP segments");
    Ok(Some(frames))
}

fn frames(path: &Path) -> Result<Vec<CapturedFrame>> {
    let mut frames = vec![];
    Capture::open(File::open(path)?)?.read(|packet| {
        let frame = at_the_web_server(packet.frame);
        frames.extend(frame.and_then(|mut frame| {
            frame.resize(FRAME_BYTES.max(frame.len()), 0);
            CapturedFrame::try_from(frame).ok()
        }));
        Ok::<_, anyhow::Error>(())
    })?;
    Ok(frames)
}

/// A TCP segment over IPv4 with the address and port of the web server; all else of it is as it was
/// captured.
fn at_the_web_server(frame: &[u8]) -> Option<Vec<u8>> {
    let mut frame = frame.to_vec();
    let (ethernet, packet) = frame.split_at_mut_checked(ETHERNET_BYTES)?;
    let is_plain = ethernet[12..] == ETHERNET[12..] && packet.first() == Some(&PLAIN);
    (is_plain && packet.get(9) == Some(&TCP)).then_some(())?;
    ethernet.copy_from_slice(&ETHERNET);
    let bytes = u16::from_be_bytes([packet[2], packet[3]]);
    let packet = packet.get_mut(..bytes.into())?;
    let (header, segment) = packet.split_at_mut_checked(IPV4_BYTES)?;
    (segment.len() >= TCP_BYTES).then_some(())?;
    header[16..].copy_from_slice(&SERVER.octets());
    write_checksum(header, 10, 0);
    segment[2..4].copy_from_slice(&80_u16.to_be_bytes());
    // The pseudo header (RFC 9293, 3.1).
    let addresses = !checksum(&header[12..], 0);
    let length = bytes - u16::try_from(IPV4_BYTES).ok()?;
    write_checksum(
        segment,
        16,
        u32::from(addresses) + u32::from(TCP) + u32::from(length),
    );
    Some(frame)
}

/// Writes the checksum of these words and of `more` where it belongs.
fn write_checksum(words: &mut [u8], place: usize, more: u32) {
    words[place..place + 2].fill(0);
    let checksum = checksum(words, more).to_be_bytes();
    words[place..place + 2].copy_from_slice(&checksum);
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use ratelimit_tests::{
        Frame,
        packet::{ACK, SYN},
    };

    use super::*;

    #[test]
    fn a_captured_request_goes_to_the_web_server_and_is_as_it_was_else() {
        let frame = Frame::ethernet().ipv4(Ipv4Addr::new(192, 0, 2, 7));
        let frame = frame.tcp(25_565, SYN).build();
        let turned = at_the_web_server(&frame).unwrap();
        assert_eq!(turned.len(), frame.len());
        assert_eq!(turned[26..34], [192, 0, 2, 7, 10, 77, 0, 1]);
        assert_eq!(turned[34..38], [0x30, 0x39, 0, 80]);
        assert_eq!(turned[38..50], frame[38..50]);
        let sum = |words: &[u8], more| checksum(words, more);
        assert_eq!(sum(&turned[14..34], 0), 0);
        assert_eq!(sum(&turned[26..54], 6 + 20), 0);
    }

    #[test]
    fn what_is_no_tcp_segment_of_ipv4_is_left_out() {
        let frame = || Frame::ethernet().ipv4(Ipv4Addr::new(192, 0, 2, 7));
        assert_eq!(at_the_web_server(&frame().udp(80).build()), None);
        let segment = frame().tcp(80, ACK).build();
        assert!(at_the_web_server(&segment).is_some());
        assert_eq!(at_the_web_server(&segment[..50]), None);
        assert_eq!(at_the_web_server(&segment[..10]), None);
    }
}
