//! Tables.

use super::*;

#[test]
fn a_table_names_its_column_of_addresses() {
    check(
        "ip,country_code,abuse_confidence_score,last_reported_at\n\
         192.0.2.5,CN,100,2026-11-27T15:17:02+00:00\n\
         2001:db8::5,DE,100,x\n",
        Format::Csv,
        "192.0.2.5\n2001:db8::5",
        &[],
    );
    check(
        "################\n\
         # Feodo Tracker\n\
         #\n\
         # Firstseen,DstIP,DstPort,LastOnline,Malware\n\
         2021-01-17 07:44:46,192.0.2.5,443,2026-11-27,Dridex\n\
         2022-01-17 07:44:46,192.0.2.6,80,2026-11-27,QakBot\n\
         # END 2 entries\n",
        Format::Csv,
        "192.0.2.5 Dridex\n192.0.2.6 QakBot",
        &[],
    );
    check(
        "\"first_seen_utc\",\"dst_ip\",\"dst_port\"\n\"2021-01-17\",\"192.0.2.5\",\"443\"\n",
        Format::Csv,
        "192.0.2.5",
        &[],
    );
    check(
        "# DShield.org Recommended Block List\n\
         Start\tEnd\tNetblock\tAttacks\tName\tCountry\n\
         192.0.2.0\t192.0.2.255\t24\t3082\tEXAMPLE\tUS\n",
        Format::Csv,
        "192.0.2.0/24 EXAMPLE",
        &[],
    );
    check(
        "198.51.100.0\t198.51.100.255\t64496\tUS\tEXAMPLE\n\
         203.0.113.0\t203.0.113.255\t64497\tUS\tOTHER\n",
        Format::Csv,
        "198.51.100.0/24\n203.0.113.0/24",
        &[],
    );
    check(
        "id;ioc;type\n1;192.0.2.5:443;ip:port\n2;example.net;domain\n",
        Format::Csv,
        "192.0.2.5",
        &[("of no address but something else", 1)],
    );
    check(
        "192.0.2.5,443,malware\n192.0.2.6,80,spam\n",
        Format::Csv,
        "192.0.2.5\n192.0.2.6",
        &[],
    );
    check(
        "# \"first_seen_utc\",\"ioc_id\",\"ioc_value\",\"ioc_type\"\n\
         \"2026-11-27\", \"1\", \"192.0.2.83:443\", \"ip:port\"\n\
         \"2026-11-27\", \"2\", \"evil.example\", \"domain\"\n",
        Format::Csv,
        "192.0.2.83",
        &[("of no address but something else", 1)],
    );
    check(
        "\"RemoteAddress\"\r\n\"192.0.2.1\"\r\n",
        Format::Csv,
        "192.0.2.1",
        &[],
    );
    check(
        "\"IP\"\n\"192.0.2.1\"\n2001:db8::1\n",
        Format::Csv,
        "192.0.2.1\n2001:db8::1",
        &[],
    );
    let bad = read_text("ip,country\n192.0.2.300,NL\n192.0.2.1,NL\n")
        .unwrap()
        .bad
        .to_string();
    assert!(
        bad.starts_with("list:2:1: `192.0.2.300` is not an address"),
        "{bad}"
    );
    let reading = read_text("ip,country\n192.0.2.1,NL\n").unwrap();
    assert_eq!(reading.notes, ["addresses from column `ip`"]);
    let reading = read_text("7,192.0.2.1\n8,192.0.2.2\n").unwrap();
    assert_eq!(reading.notes, ["addresses from column 2"]);
}

/// Each was read in part, or as something else.
#[test]
fn tables_lose_no_address() {
    let both = "192.0.2.1\n2001:db8::1\n2001:db8::2";
    for (text, expected, skipped) in [
        (
            "ip,ipv6\n192.0.2.1,2001:db8::1\n,2001:db8::2\n",
            both,
            &[][..],
        ),
        (
            "network,netmask\n192.0.2.0,255.255.255.0\n",
            "192.0.2.0/24",
            &[],
        ),
        ("ip,bits\n192.0.2.0,25\n", "192.0.2.0/25", &[]),
        ("sep=;\r\nIP;Grund\r\n192.0.2.1;a\r\n", "192.0.2.1", &[]),
        (
            "ip,action\n192.0.2.1,block\n192.0.2.2,allow\n",
            "192.0.2.1",
            &[("let through there", 1)],
        ),
        (
            "| IP | Why |\n|----|-----|\n| 192.0.2.1 | a |\n",
            "192.0.2.1",
            &[(OTHER, 1)],
        ),
        (
            "id,type,value\n1,ip-src,192.0.2.1\n2,ip-dst|port,192.0.2.2|443\n3,domain,a.example\n",
            "192.0.2.1\n192.0.2.2",
            &[(OTHER, 1)],
        ),
    ] {
        check(text, Format::Csv, expected, skipped);
    }
    check(
        "192.0.2.1\r192.0.2.2\r",
        Format::Plain,
        "192.0.2.1\n192.0.2.2",
        &[],
    );
    check(
        "     12 192.0.2.1\n      3 192.0.2.2\n",
        Format::Plain,
        "192.0.2.1\n192.0.2.2",
        &[],
    );
}
