//! Floods of forged sources, each packet from a source of its own.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use crate::{Frame, Lab, lab::Sender};

/// Frames a second.
const RATE: u32 = 4_000;

/// Does something while the far end of a lab sends these frames.
pub fn flooded(lab: &Lab, frame: impl Fn(u32) -> Vec<u8> + Sync, work: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let sender = Sender::new(&lab.far).unwrap();
            let start = Instant::now();
            for number in 0.. {
                let due = Duration::from_secs(1) / RATE * number;
                thread::sleep(due.saturating_sub(start.elapsed()));
                if is_over.load(Relaxed) {
                    return;
                }
                sender.send(&frame(number)).unwrap();
            }
        });
        // Also where it fails: the scope waits for the flood.
        let _end = End(&is_over);
        work();
    });
}

struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// A frame of the source with a number, of the family of `to`.
pub fn frame(number: u32, to: IpAddr) -> Frame {
    let number = number.wrapping_mul(7919);
    Frame::ethernet().ip(match to {
        IpAddr::V4(_) => Ipv4Addr::from(0x6000_0000 | (number & 0x0fff_ffff)).into(),
        IpAddr::V6(_) => Ipv6Addr::from(0x2001_0db8 << 96 | u128::from(number) << 64).into(),
    })
}
