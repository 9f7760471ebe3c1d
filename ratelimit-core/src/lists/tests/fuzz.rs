//! Random texts: nothing panics, and every reported position is within the text.

use proptest::prelude::*;
use strum::VariantArray;

use super::*;

const SAMPLES: [&[u8]; 9] = [
    include_bytes!("samples/ranges.txt"),
    include_bytes!("samples/spamhaus-drop.txt"),
    include_bytes!("samples/spamhaus-drop.json"),
    include_bytes!("samples/ipset-blocked.save"),
    include_bytes!("samples/nft-blackhole.nft"),
    include_bytes!("samples/nft-blackhole.json"),
    include_bytes!("samples/nft-ruleset.json"),
    include_bytes!("samples/crowdsec-decisions.csv"),
    include_bytes!("samples/crowdsec-decisions.json"),
];

proptest! {
    #[test]
    fn random_bytes_are_read_without_panic(bytes: Vec<u8>) {
        check(&bytes);
    }

    #[test]
    fn words_of_the_formats_in_any_order_are_read_without_panic(
        words in prop::collection::vec(prop::sample::select(WORDS.as_slice()), 0..40)
    ) {
        check(words.concat().as_bytes());
    }

    #[test]
    fn each_parser_reads_words_of_all_formats_without_panic(
        format in prop::sample::select(Format::VARIANTS),
        words in prop::collection::vec(prop::sample::select(WORDS.as_slice()), 0..40)
    ) {
        let text = words.concat();
        let source = ListText { name: "list", bytes: text.as_bytes(), now: now(), written: now() };
        if let Ok(reading) = read_as(format, source, &Vetting::default()) {
            let _ = (reading.bad.to_string(), reading.bad.unquoted());
        }
    }

    #[test]
    fn damaged_lists_are_read_without_panic(
        sample in 0..SAMPLES.len(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut: prop::sample::Index,
    ) {
        let mut bytes = SAMPLES[sample].to_vec();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        check(&bytes);
        bytes.truncate(cut.index(bytes.len()));
        check(&bytes);
    }

    #[test]
    fn merging_keeps_what_is_said_of_every_address(
        entries in prop::collection::vec((0..64_u8, 26..=32_u8, prop::option::of(1..4_i64)), 0..20)
    ) {
        let entries: Vec<Entry> = entries
            .into_iter()
            .map(|(host, length, until)| entry(host, length, until))
            .collect();
        let mut merged = entries.clone();
        let count = merge(&mut merged);
        prop_assert_eq!(entries.len(), merged.len() + count.duplicates + count.covered);
        for host in 0..64 {
            prop_assert_eq!(end(&merged, host), end(&entries, host));
        }
    }
}

const WORDS: [&str; 66] = [
    "add ",
    "create ",
    "set ",
    "element ",
    "elements ",
    "= ",
    "{",
    "}",
    ", ",
    "\n",
    "hash:ip ",
    "192.0.2.1",
    "-",
    "/24 ",
    "2001:db8::",
    "timeout ",
    "10m ",
    "comment ",
    "\"",
    "[",
    "]",
    "{\"nftables\":",
    "{\"cidr\":",
    "{\"prefix\":",
    "value,duration",
    "define ",
    "; ",
    "# ",
    "ö",
    "\u{0}",
    "<ipset name=\"a\">",
    "<member>",
    "<elem>",
    "</elem>",
    "</member>",
    "<rule>",
    "<source address=\"192.0.2.1\"/>",
    "</rule>",
    "Status for the jail: a",
    "Banned IP list: ",
    "[{'a': ['",
    "']}]",
    "deny ",
    "from ",
    "ALL: ",
    "-A INPUT -s ",
    "-j DROP",
    "table <a> ",
    "block in ",
    "add address=",
    "list=a ",
    "\\\n",
    " - ",
    " , 000 , a",
    "alert ip [",
    " -> ",
    "0.0.0.255 ",
    "\u{200b}",
    "acl a {",
    "!",
    "\"/24;",
    "set subnet ",
    "set start-ip ",
    "<alias><address>",
    "{\"start\":\"",
    "\",\"end\":\"",
];

fn check(bytes: &[u8]) {
    let Ok(reading) = read_bytes(bytes, Vetting::default()) else {
        return;
    };
    let lines = String::from_utf8_lossy(bytes)
        .split(['\r', '\n'])
        .count()
        .max(1)
        + 1;
    for shown in &reading.bad.shown {
        let line = shown.position.as_ref().unwrap().line;
        assert!((1..=lines).contains(&line), "{shown}");
    }
    let mut merged = reading.entries;
    merge(&mut merged);
}

fn entry(host: u8, length: u8, until: Option<i64>) -> Entry {
    Entry {
        prefix: crate::prefix::Prefix::around([192, 0, 2, host].into(), length).unwrap(),
        until: until.map(|second| Timestamp::from_second(second).unwrap()),
        reason: ReasonId::NONE,
        facts: 0,
    }
}

/// The expiry of an address on the list; `None` if it is not listed.
fn end(entries: &[Entry], host: u8) -> Option<Timestamp> {
    let address = crate::prefix::Prefix::from(std::net::IpAddr::from([192, 0, 2, host]));
    let around = entries.iter().filter(|entry| entry.prefix.covers(address));
    around
        .map(|entry| entry.until.unwrap_or(Timestamp::MAX))
        .max()
}
