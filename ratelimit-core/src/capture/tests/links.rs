//! Link-layer headers, and the Ethernet frame that each becomes.

use super::*;

const IPV4: [u8; 20] = [0x45; 20];
const IPV6: [u8; 40] = [0x60; 40];

#[test]
fn every_kind_of_frame_becomes_one_of_ethernet() {
    for (link, header, packet, protocol) in [
        (101, &[][..], &IPV4[..], [0x08, 0x00]),
        (101, &[], &IPV6, [0x86, 0xdd]),
        (12, &[], &IPV4, [0x08, 0x00]),
        (14, &[], &IPV6, [0x86, 0xdd]),
        (228, &[], &IPV4, [0x08, 0x00]),
        (9, &[0xff, 3, 0, 0x21], &IPV4, [0x08, 0x00]),
        (9, &[0, 0x57], &IPV6, [0x86, 0xdd]),
        (9, &[0x21], &IPV4, [0x08, 0x00]),
        (50, &[0xff, 3, 0x57], &IPV6, [0x86, 0xdd]),
        (50, &[0x0f, 0, 0x08, 0], &IPV4, [0x08, 0x00]),
        (50, &[0xff, 3, 0xc0, 0x21], &[0; 8], [0, 0]),
        (51, &[0x11, 0, 0, 7, 0, 42, 0, 0x57], &IPV6, [0x86, 0xdd]),
        (104, &[0x8f, 0, 0x86, 0xdd], &IPV6, [0x86, 0xdd]),
        (229, &[], &IPV6, [0x86, 0xdd]),
        (0, &[2, 0, 0, 0], &IPV4, [0x08, 0x00]),
        (0, &[0, 0, 0, 30], &IPV6, [0x86, 0xdd]),
        (108, &[0, 0, 0, 24], &IPV6, [0x86, 0xdd]),
        (
            113,
            &[0, 0, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0, 8, 0],
            &IPV4,
            [0x08, 0x00],
        ),
        (
            113,
            &[0, 0, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0, 8, 6],
            &[0; 28],
            [0x08, 0x06],
        ),
        (
            276,
            &[
                0x86, 0xdd, 0, 0, 0, 0, 0, 2, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0,
            ],
            &IPV6,
            [0x86, 0xdd],
        ),
    ] {
        let data = [header, packet].concat();
        let wire = u32::try_from(data.len()).unwrap() + 1000;
        let frame = [&[0; 12], &protocol[..], packet].concat();
        let bytes = u32::try_from(14 + packet.len()).unwrap() + 1000;
        check(link, wire, &data, &Ok((frame, bytes)));
    }
}

#[test]
fn what_was_cut_before_its_protocol_is_cut_there() {
    check(101, 40, &[], &Ok((vec![0; 12], 54)));
    check(113, 56, &[0; 15], &Ok((vec![], 54)));
}

#[test]
fn a_frame_has_at_least_the_bytes_that_were_captured() {
    check(1, 3, &FRAME, &Ok((FRAME.to_vec(), 14)));
}

#[test]
fn other_kinds_are_refused_by_name() {
    let refusal = |name: &str| {
        Err(format!(
            "its packets are {name}, and only those of Ethernet, Linux cooked, loopback, PPP, \
             Cisco HDLC and raw IP captures are understood; write `editcap -L -C BYTES -T rawip \
             CAPTURE NEW` with the length of the headers before IP, and read NEW"
        ))
    };
    check(
        127,
        60,
        &FRAME,
        &refusal("of link type 127 (IEEE802_11_RADIOTAP)"),
    );
    check(147, 60, &FRAME, &refusal("of link type 147"));
}

fn check(link: u32, wire: u32, data: &[u8], expected: &Result<(Vec<u8>, u32), String>) {
    let order = Order::Little;
    let file = [
        order.pcap_header(0xa1b2_c3d4, link),
        order.pcap_packet(0, 0, wire, data),
    ]
    .concat();
    let (rows, answer) = read(&file);
    let seen = answer.map(|()| {
        let (_, frame, bytes) = rows.into_iter().next().unwrap();
        (frame, bytes)
    });
    assert_eq!(seen, *expected, "link type {link}");
}
