//! Files that are no captures, and cut or damaged captures: the error, and the packets read before
//! it.

use proptest::prelude::*;

use super::*;

#[test]
fn a_classic_capture_may_be_cut_at_any_byte() {
    let order = Order::Little;
    let packet = order.pcap_packet(1, 0, 14, &FRAME);
    let file = [&order.pcap_header(0xa1b2_c3d4, 1)[..], &packet, &packet].concat();
    for end in 1..file.len() {
        let (rows, answer) = read(&file[..end]);
        let packets = end.saturating_sub(24) / packet.len();
        assert_eq!(rows.len(), packets, "{end}");
        let expected = match end {
            0..24 => Err("it is cut in the middle of its header".to_owned()),
            // Nothing in the file says that there was more.
            24 | 54 => Ok(()),
            _ => Err(format!(
                "it is cut at byte {end}, in the middle of packet {}",
                packets + 1
            )),
        };
        assert_eq!(answer, expected, "{end}");
    }
}

#[test]
fn a_capture_of_the_next_generation_may_be_cut_at_any_byte() {
    for order in Order::ALL {
        let blocks = [
            order.section(),
            order.interface(1, 0, &[(9, &[9])]),
            order.enhanced(0, 1, 14, &FRAME),
            order.enhanced(0, 2, 14, &FRAME),
        ];
        let file = blocks.concat();
        let whole: Vec<usize> = (1..=4)
            .map(|count| blocks[..count].concat().len())
            .collect();
        for end in 1..file.len() {
            let (rows, answer) = read(&file[..end]);
            let packets = whole[2..].iter().filter(|length| **length <= end).count();
            assert_eq!(rows.len(), packets, "{order:?} {end}");
            let expected = if end < whole[0] {
                Err("it is cut in the middle of its header".to_owned())
            } else if whole.contains(&end) {
                Ok(())
            } else {
                Err(format!(
                    "it is cut at byte {end}, in the middle of the block after packet {packets}"
                ))
            };
            assert_eq!(answer, expected, "{order:?} {end}");
        }
    }
}

#[test]
fn what_is_no_capture_is_told_by_its_first_bytes() {
    check(b"", "it is empty");
    check(
        b"PK\x03\x04 and more",
        "it is neither pcap nor pcapng (first bytes 50 4b 03 04); convert it with `editcap -F pcap \
         CAPTURE NEW`",
    );
    check(
        b"\x1f\x8b\x08\x00",
        "it is compressed with gzip: write `gzip -dc CAPTURE | rlctl simulate - ...`",
    );
    check(
        b"\x28\xb5\x2f\xfd",
        "it is compressed with zstd: write `zstd -dc CAPTURE | rlctl simulate - ...`",
    );
}

#[test]
fn a_packet_of_an_interface_that_is_not_described_is_damage() {
    let order = Order::Little;
    let file = [
        order.section(),
        order.interface(1, 0, &[]),
        order.enhanced(1, 1, 14, &FRAME),
    ];
    check(
        &file.concat(),
        "it is damaged at byte 48, after 0 packets: a packet refers to an undefined interface",
    );
}

/// Found by `cargo xtask fuzz capture`: of a block that is not an interface's or a packet's, the
/// parser took 12 of 5 bytes.
#[test]
fn a_block_that_is_shorter_than_what_every_block_has_is_damage() {
    for order in Order::ALL {
        for kind in [1, 3, 4, 5, 6, 10, 0x0bad, 0x8000_0001] {
            for length in 0..12 {
                let block = [order.u32(kind), order.u32(length), order.u32(length)].concat();
                check(
                    &[order.section(), block].concat(),
                    "it is damaged at byte 28, after 0 packets: its lengths contradict each other",
                );
            }
        }
    }
}

#[test]
fn lengths_that_contradict_each_other_are_damage() {
    let order = Order::Little;
    let mut packet = order.enhanced(0, 1, 14, &FRAME);
    packet[20..24].copy_from_slice(&order.u32(400));
    let rest = order.enhanced(0, 1, 14, &FRAME).repeat(30_000);
    let file = [order.section(), order.interface(1, 0, &[]), packet, rest];
    check(
        &file.concat(),
        "it is damaged at byte 48, after 0 packets: its lengths contradict each other",
    );
}

#[test]
fn a_packet_of_many_megabytes_is_damage() {
    let order = Order::Little;
    let packet = order.u32s(&[1, 0, 1 << 30, 1 << 30]);
    let file = [order.pcap_header(0xa1b2_c3d4, 1), packet, vec![0; 1 << 25]];
    check(
        &file.concat(),
        "it is damaged at byte 24, after 0 packets: a packet claims to exceed 16 MiB",
    );
}

#[test]
fn a_resolution_that_no_number_holds_is_damage() {
    let order = Order::Little;
    let file = [order.section(), order.interface(1, 0, &[(9, &[127])])];
    check(
        &file.concat(),
        "it is damaged at byte 28, after 0 packets: an interface has an unsupported time \
         resolution",
    );
}

#[test]
fn obsolete_blocks_are_refused_and_not_passed_over() {
    for order in Order::ALL {
        let file = [
            order.section(),
            order.interface(1, 0, &[]),
            order.block(2, &[0; 20]),
        ];
        check(
            &file.concat(),
            "it has obsolete packet blocks: write `editcap -F pcap CAPTURE NEW`, and simulate NEW",
        );
    }
}

#[test]
fn a_disk_that_fails_is_not_the_end_of_the_file() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is on fire"))
        }
    }
    let header = Order::Little.pcap_header(0xa1b2_c3d4, 1);
    for bytes in [0, 4, 10, 24] {
        let opened = Capture::open(header[..bytes].chain(Broken));
        let answer = opened.and_then(|mut capture| capture.read(|_| Ok(())));
        assert_eq!(
            answer.unwrap_err().to_string(),
            "cannot read it: the disk is on fire",
            "{bytes}"
        );
    }
}

proptest! {
    #[test]
    fn any_damage_ends_in_packets_or_an_error_and_never_in_a_panic(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        tail in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        for order in Order::ALL {
            let classic = [
                order.pcap_header(0xa1b2_c3d4, 1),
                order.pcap_packet(1, 0, 14, &FRAME).repeat(3),
            ];
            let interface = order.interface(113, 96, &[(9, &[9]), (14, &[1; 8])]);
            let packets = [order.enhanced(0, 1, 14, &FRAME), order.simple(14, &FRAME)].concat();
            let next = [order.section(), interface, packets];
            for file in [classic.concat(), next.concat()] {
                let mut file = [&file[..], &tail].concat();
                for (index, byte) in &damage {
                    let index = index.index(file.len());
                    file[index] = *byte;
                }
                let (rows, _) = read(&file);
                prop_assert!(rows.len() <= file.len());
            }
        }
    }
}

fn check(file: &[u8], expected: &str) {
    assert_eq!(read(file), (vec![], Err(expected.to_owned())));
}
