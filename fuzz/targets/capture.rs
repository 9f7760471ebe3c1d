//! Any file is a capture, or is refused, and each of its packets is a frame that can be judged.

#![no_main]

use std::net::{Ipv4Addr, Ipv6Addr};

use libfuzzer_sys::fuzz_target;
use ratelimit_common::{Cursor, Instant, Ipv4, Ipv6, Policy, Settings};
use ratelimit_core::{
    capture::{Capture, CaptureError},
    memory_tables::MemoryTables,
};

thread_local! {
    static TABLES: MemoryTables = MemoryTables::new(
        Settings::new(0, false),
        vec![Policy::default()],
        (
            Ipv4::from(Ipv4Addr::BROADCAST),
            Ipv6::from(Ipv6Addr::from_bits(!0)),
        ),
    );
}

fuzz_target!(|file: &[u8]| {
    let Ok(mut capture) = Capture::open(file) else {
        return;
    };
    let outcome = capture.read(|packet| {
        let at = Instant::from_nanos(packet.time_ns.unwrap_or_default());
        let frame = Cursor::with_frame_bytes(packet.frame, packet.frame_bytes);
        TABLES.with(|tables| tables.judge(frame, at));
        Ok::<(), CaptureError>(())
    });
    if let Err(error) = outcome {
        assert!(!error.to_string().is_empty());
    }
});
