//! Both formats, in both byte orders, with all their ways to write a time.

use super::*;

const MICROS: u32 = 0xa1b2_c3d4;
const NANOS: u32 = 0xa1b2_3c4d;

#[test]
fn pcap_has_two_byte_orders_and_two_resolutions() {
    for order in Order::ALL {
        for (magic, time) in [(MICROS, 7_000_005_000), (NANOS, 7_000_000_005)] {
            let header = order.pcap_header(magic, 1);
            let file = [header, order.pcap_packet(7, 5, 60, &FRAME)].concat();
            check(&file, &[(Some(time), 60)]);
        }
    }
}

#[test]
fn a_link_type_may_carry_what_is_known_of_checksums() {
    let header = Order::Little.pcap_header(MICROS, 0xf400_0001);
    check(
        &[header, Order::Little.pcap_packet(1, 0, 14, &FRAME)].concat(),
        &[(Some(1_000_000_000), 14)],
    );
}

#[test]
fn pcapng_has_two_byte_orders_and_many_interfaces() {
    for order in Order::ALL {
        let offset = match order {
            Order::Little => 100_i64.to_le_bytes(),
            Order::Big => 100_i64.to_be_bytes(),
        };
        let file = [
            order.section(),
            order.interface(1, 0, &[]),
            order.interface(1, 0, &[(9, &[9])]),
            order.interface(1, 0, &[(9, &[0x80 | 0x0a]), (14, &offset)]),
            order.enhanced(0, 1_500_000, 60, &FRAME),
            order.enhanced(1, 1_500_000, 61, &FRAME),
            order.enhanced(2, 1536, 62, &FRAME),
        ];
        let times = [1_500_000_000, 1_500_000, 101_500_000_000];
        check(
            &file.concat(),
            &[
                (Some(times[0]), 60),
                (Some(times[1]), 61),
                (Some(times[2]), 62),
            ],
        );
    }
}

#[test]
fn each_section_has_interfaces_and_a_byte_order_of_its_own() {
    let [little, big] = Order::ALL;
    let file = [
        little.section(),
        little.interface(1, 0, &[(9, &[9])]),
        little.enhanced(0, 5, 60, &FRAME),
        big.section(),
        big.interface(1, 0, &[]),
        big.enhanced(0, 5, 61, &FRAME),
    ];
    check(&file.concat(), &[(Some(5), 60), (Some(5000), 61)]);
}

#[test]
fn a_simple_packet_has_no_time_and_was_cut_where_its_interface_cuts() {
    let order = Order::Big;
    let snapped = [
        order.section(),
        order.interface(1, 14, &[]),
        order.simple(60, &[&FRAME[..], &[0, 0]].concat()),
    ];
    check(&snapped.concat(), &[(None, 60)]);
    let whole = [
        order.section(),
        order.interface(1, 0, &[]),
        order.simple(14, &FRAME),
    ];
    check(&whole.concat(), &[(None, 14)]);
}

#[test]
fn blocks_that_are_no_packets_are_passed_over() {
    let order = Order::Little;
    let file = [
        order.section(),
        order.block(4, &[0; 8]),
        order.block(0x0bad_cafe, &[0; 40]),
        order.interface(1, 0, &[]),
        order.enhanced(0, 1, 14, &FRAME),
    ];
    check(&file.concat(), &[(Some(1000), 14)]);
}

#[test]
fn a_pipe_may_give_a_byte_at_a_time() {
    let order = Order::Little;
    let classic = [
        order.pcap_header(MICROS, 1),
        order.pcap_packet(1, 0, 14, &FRAME),
    ]
    .concat();
    let next = [
        order.section(),
        order.interface(1, 0, &[]),
        order.simple(14, &FRAME),
    ]
    .concat();
    for file in [classic, next] {
        let mut packets = 0;
        let mut capture = Capture::open(Dribble(&file)).unwrap();
        let visit = |packet: Packet<'_>| {
            packets += packet.frame_bytes;
            Ok::<_, CaptureError>(())
        };
        capture.read(visit).unwrap();
        assert_eq!(packets, 14);
    }
}

#[test]
fn a_packet_may_be_larger_than_what_is_read_at_a_time() {
    let order = Order::Little;
    let large = vec![0; 1_000_000];
    let file = [
        order.pcap_header(MICROS, 1),
        order.pcap_packet(1, 0, 1_000_000, &large),
        order.pcap_packet(2, 0, 14, &FRAME),
    ];
    let (rows, answer) = read(&file.concat());
    assert_eq!(answer, Ok(()));
    let lengths: Vec<usize> = rows.iter().map(|(_, frame, _)| frame.len()).collect();
    assert_eq!(lengths, [1_000_000, 14]);
}

/// Each packet is [`FRAME`], with a time and bytes on the wire.
fn check(file: &[u8], expected: &[(Option<u64>, u32)]) {
    let rows: Vec<Row> = expected
        .iter()
        .map(|(time, bytes)| (*time, FRAME.to_vec(), *bytes))
        .collect();
    assert_eq!(read(file), (rows, Ok(())));
}
