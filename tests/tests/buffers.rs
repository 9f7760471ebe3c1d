//! Frames of several buffers, of which the first is empty or short, are judged as if they lay in
//! one.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use ratelimit_common::{
    ClassSet, DropReason, Instant, ListEntry, PassReason, Settings, Unit, Verdict, layout,
    parse::{LinkLayer, transport::Kind},
};
use ratelimit_core::class_tables::ClassTables;
use ratelimit_tests::{
    Frame, Program, Scene,
    packet::{ACK, ETHERNET_BYTES, Extension, SYN, VLAN},
    program::Constants,
    require_root,
    scene::{banned_until, limit, of_kind},
    shapes, skip,
};

const IPV4: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 77);
const IPV6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 7, 7, 0, 0, 0, 0x77);
/// Bytes of the first buffer: none, an Ethernet header, up to the source, the flags, and as much as
/// is not copied any more.
const FIRST: [usize; 16] = [
    0, 1, 13, 14, 18, 20, 26, 34, 38, 40, 47, 54, 68, 128, 255, 256,
];

#[test]
fn every_shape_is_judged_as_in_one_buffer() {
    require_root!();
    let Some(mut program) = program(LinkLayer::Ethernet) else {
        return;
    };
    let allowed = ListEntry::new(true, Some(Instant::from_nanos(u64::MAX)), None);
    for (entry, name) in [
        (None, "unknown"),
        (Some(banned_until(u64::MAX)), "banned"),
        (Some(allowed), "allowed"),
    ] {
        program.clear().unwrap();
        let entries = ["203.0.113.77/32", "2001:db8:7:7::/64"].map(|prefix| Some((prefix, entry?)));
        let scene = entries.into_iter().flatten();
        let scene = scene.fold(no_requests(), |scene, (prefix, entry)| {
            scene.with(prefix, entry)
        });
        scene.set_up(&mut program).unwrap();
        // One that has more headers than are copied is dropped, see below.
        let shapes = shapes::all(IPV4, IPV6).into_iter();
        for shaped in shapes.filter(|shaped| shaped.name != "longest extension header") {
            let frame = &shaped.frame;
            let expected = program.judge(frame).unwrap();
            for first in FIRST.into_iter().filter(|first| *first < frame.len()) {
                let judged = program.judge_in_buffers(frame, first).unwrap();
                assert_eq!(judged, expected, "{name}: {}, {first} bytes", shaped.name);
            }
        }
    }
}

#[test]
fn requests_are_distinguished_from_acknowledgements_wherever_the_first_buffer_ends() {
    require_root!();
    for link_layer in [LinkLayer::Ethernet, LinkLayer::None] {
        let Some(mut program) = program(link_layer) else {
            return;
        };
        no_requests().set_up(&mut program).unwrap();
        for (flags, expected) in [
            (SYN, Verdict::Drop(DropReason::Limited)),
            (ACK, Verdict::Pass(PassReason::Unlimited)),
        ] {
            let tagged = Frame::ethernet().vlan(VLAN, 7).ipv4(IPV4).tcp(443, flags);
            let mut frames = vec![
                Frame::ethernet().ipv4(IPV4).tcp(443, flags),
                Frame::ethernet().ipv6(IPV6).tcp(443, flags),
            ];
            if link_layer == LinkLayer::Ethernet {
                frames.push(tagged);
            }
            for frame in frames {
                for bytes in [0, 2_000, 9_000] {
                    let mut frame = frame.clone().pad_to(bytes).build();
                    if link_layer == LinkLayer::None {
                        frame.drain(..ETHERNET_BYTES);
                    }
                    for first in (0..300).filter(|first| *first < frame.len()) {
                        let (_, verdict) = program.judge_in_buffers(&frame, first).unwrap();
                        assert_eq!(verdict, expected, "{first} of {bytes}, {link_layer:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn requests_behind_long_extension_headers_do_not_pass() {
    require_root!();
    let Some(mut program) = program(LinkLayer::Ethernet) else {
        return;
    };
    no_requests().set_up(&mut program).unwrap();
    // Of a segment 14 bytes are read.
    for (units, first, reason) in [
        (22, 0, DropReason::Limited),
        (23, 0, DropReason::ExtensionDepth),
        (24, 20, DropReason::ExtensionDepth),
        (25, 255, DropReason::ExtensionDepth),
        (25, 256, DropReason::ExtensionDepth),
        (25, 300, DropReason::Limited),
        (255, 2_115, DropReason::ExtensionDepth),
        (255, 2_116, DropReason::Limited),
    ] {
        let frame = Frame::ethernet().ipv6(IPV6);
        let frame = frame.extension(Extension::Destination(units)).tcp(443, SYN);
        let frame = frame.pad_to(3_000).build();
        let (_, verdict) = program.judge_in_buffers(&frame, first).unwrap();
        assert_eq!(
            verdict,
            Verdict::Drop(reason),
            "{units} units, {first} bytes"
        );
    }
}

/// The program for frames of several buffers; none, and the test is skipped, where the kernel gives
/// a test no say over them.
fn program(link_layer: LinkLayer) -> Option<Program> {
    let constants = Constants {
        entry_point: layout::PROGRAM_FRAGS,
        link_layer,
        ..Constants::default()
    };
    let program = Program::load(&constants).expect("the program loads");
    if program.run_in_buffers(&[0; 64], 20).is_err() {
        skip::report("needs Linux 6.18, to say how long the first buffer is");
        return None;
    }
    Some(program)
}

/// The limit of requests has room for a byte, so none may pass.
fn no_requests() -> Scene {
    let class = ClassSet::one(0).unwrap();
    let mut classes = ClassTables::default();
    classes.add(class, of_kind(Kind::is_syn));
    let requests = limit(1, Unit::Bytes, Duration::from_hours(1)).for_classes(class);
    Scene {
        settings: Settings::new(0, false).with_classes(),
        classes,
        ..Scene::limited(&[requests])
    }
}
