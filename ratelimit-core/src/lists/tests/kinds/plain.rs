//! Plain lists.

use super::*;

#[test]
fn a_number_behind_an_address_says_how_often_it_was_seen() {
    let text = "# IP\tnumber of lists\n192.0.2.20\t10\n192.0.2.102\t3\n198.51.100.53\t9\n";
    check(
        text,
        Format::Plain,
        "192.0.2.20\n192.0.2.102\n198.51.100.53",
        &[],
    );
    let read = |text: &str| {
        let vetting = Vetting {
            min_count: Some(9),
            ..Vetting::default()
        };
        read_bytes(text.as_bytes(), vetting)
    };
    let reading = read(text).unwrap();
    assert_eq!(entries(&reading), "192.0.2.20\n198.51.100.53");
    assert_eq!(reading.skipped.get("seen fewer than 9 times"), Some(&1));
    let error = read("192.0.2.1\n").unwrap_err().error;
    assert_eq!(error, "list: no entry has a number after the address");
    let table = "ip,country,score\n192.0.2.1,NL,3\n192.0.2.2,NL,100\n";
    assert_eq!(entries(&read(table).unwrap()), "192.0.2.2");
}

#[test]
fn comments_begin_with_two_slashes_too() {
    check(
        "// daily\n\n192.0.2.7 // why\n198.51.100.8\n",
        Format::Plain,
        "192.0.2.7 why\n198.51.100.8",
        &[],
    );
}

#[test]
fn several_addresses_stand_on_a_line_where_that_can_be_nothing_else() {
    let three = "192.0.2.5\n198.51.100.6\n2001:db8::5";
    check(
        "192.0.2.5 198.51.100.6 2001:db8::5",
        Format::Plain,
        three,
        &[],
    );
    // No key of YAML ends in two colons.
    check(
        "  2001:db8::\n  2001:db8:1::\n",
        Format::Plain,
        "2001:db8::\n2001:db8:1::",
        &[],
    );
    check(
        "192.0.2.5,198.51.100.6,2001:db8::5\n",
        Format::Plain,
        three,
        &[],
    );
    check(
        "192.0.2.5 203.0.113.6\n",
        Format::Plain,
        "192.0.2.5\n203.0.113.6",
        &[],
    );
    for (text, hint) in [
        (
            "192.0.2.1 192.0.2.9",
            "write 192.0.2.1-192.0.2.9 for a range, or each in a line of its own",
        ),
        (
            "192.0.2.1;192.0.2.2",
            "write one address, prefix or range per line",
        ),
        (
            "192.0.2.1, 192.0.2.2",
            "write one address, prefix or range per line",
        ),
        (
            "192.0.2.1 203.0.113.9\n192.0.2.2\n",
            "write 192.0.2.1-203.0.113.9 for a range",
        ),
    ] {
        let reading = read_text(text).unwrap();
        let bad = reading.bad.to_string();
        assert!(bad.contains("two addresses on one line"), "{bad}");
        assert!(bad.contains(hint), "{bad}");
        assert_eq!(reading.bad.count, 1, "{text}");
    }
}

#[test]
fn what_is_nearly_an_address_is_refused_with_the_address() {
    for (text, hint) in [
        ("192.0.2.1.", "^ write 192.0.2.1"),
        ("192.0.2.1,", "^ write 192.0.2.1"),
        ("192.0.2.*", "^ write 192.0.2.0/24"),
        ("192.0.2.0 255.255.255.0", "^ write 192.0.2.0/24"),
        ("192[.]0[.]2[.]1", "^ write 192.0.2.1"),
        ("https://192.0.2.1/x", "^ write 192.0.2.1"),
        ("\u{201c}192.0.2.1\u{201d}", "^ write 192.0.2.1"),
        ("192.0.2.1\u{2013}192.0.2.9", "^ write 192.0.2.1-192.0.2.9"),
        ("192.0.2.010-192.0.2.020", "^ write 192.0.2.10-192.0.2.20"),
        (
            "192.0.2.42.3254.198.51.100.223",
            "two addresses run together",
        ),
        ("2001:db8:1:2:3:4:5:6:7", "write eight"),
        ("!192.0.2.1", "rlctl allow add"),
    ] {
        let bad = read_text(text).unwrap().bad;
        assert!(
            bad.count == 1 && bad.to_string().contains(hint),
            "{text}\n{bad}"
        );
    }
    let bad = read_text("192.0.2.1\u{200b}\n").unwrap().bad.to_string();
    assert_eq!(
        bad,
        "list:1:1: `192.0.2.1\\u{200b}` has invisible characters\n\
         1 | 192.0.2.1\\u{200b}\n  | ^^^^^^^^^^^^^^^^^ write 192.0.2.1"
    );
}
