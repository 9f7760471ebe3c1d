//! Texts that are no list, and lists that would be misread.

use super::*;

#[test]
fn what_is_no_list_is_named() {
    for (bytes, expected) in [
        (
            &b"404: Not Found"[..],
            "is the response of a server: `404: Not Found`",
        ),
        (
            b"HTTP/1.1 403 Forbidden\r\n",
            "is the response of a server: `HTTP/1.1 403 Forbidden`",
        ),
        (
            b"error code: 1020",
            "is the response of a server: `error code: 1020`",
        ),
        (
            b"Too many requests, slow down\n",
            "is the response of a server: `Too many requests, slow \
                                             down`",
        ),
        (
            b"{\"message\":\"API rate limit exceeded\"}",
            "is the response of a server: `API rate limit \
                                                        exceeded`",
        ),
        (
            b"{\"errors\":[{\"detail\":\"Authentication failed.\",\"status\":401}]}",
            "is the response of a server: `Authentication failed.`",
        ),
        (
            b"<?xml version=\"1.0\"?>\n\
           <Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>",
            "is the response of a server: `Access Denied`",
        ),
        (
            b"\0\0\x01\xab\xcd\xefMaxMind.com\xe9[binary_format",
            "is a MaxMind database (mmdb)",
        ),
        (b"BZh91AY&SY", "is compressed (bzip2)"),
        (b"SQLite format 3\0", "is a database of SQLite"),
        (b"\x01\x02\0\x03", "is not text"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
            "is a pointer of Git LFS",
        ),
        (
            "╭────╮\n\
          │ ID │ Source │ Scope:Value │ Reason │\n"
                .as_bytes(),
            "is a table that cscli formats for people",
        ),
        (
            b"+----+\n\
           | ID | SOURCE | SCOPE:VALUE | REASON |\n",
            "is a table that cscli formats for people",
        ),
        (b"1\09\0", "is UTF-16"),
        (b"{\\rtf1\\ansi 192.0.2.1", "is RTF"),
        (b"PK\x03\x04\x14\0[Content_Types].xml", "is a workbook"),
        (
            b"Status\n\
           |- Number of jail:\t1\n\
           `- Jail list:\tsshd\n",
            "is the list of fail2ban's jails",
        ),
        (b"0.0.0.0 ads.example.net\n", "is a hosts file"),
        (b"---\n- 192.0.2.1\n", "is YAML"),
        (b"bad:\n  - \"192.0.2.1\"\n", "is YAML"),
        (
            b"http:\n  middlewares:\n    a:\n      sourceRange:\n      - 192.0.2.1\n",
            "is YAML",
        ),
        (b"apiVersion: v1\nkind: NetworkPolicy\n", "is YAML"),
        (
            b"\nRule Name:    a b\n------\nLocalIP:      192.0.2.1\nRemoteIP:     192.0.2.2\n",
            "is what Windows shows to people",
        ),
        (
            b"RemoteAddress : {192.0.2.1, 192.0.2.2, 192.0.2.3, 192.0.2.4...}\n",
            "is what Windows shows to people",
        ),
    ] {
        let error = read_bytes(bytes, Vetting::default()).unwrap_err();
        assert!(
            error.error.starts_with(&format!("list: {expected}")),
            "{}",
            error.error
        );
    }
}

/// Each line of 60 characters is a hundred prefixes.
#[test]
fn more_entries_than_there_is_room_for_are_refused_while_they_are_read() {
    let line = "2001:db8:1::1-2001:db8:1:ffff:ffff:ffff:ffff:fffe\n";
    let error = read_text(&line.repeat(14_000)).unwrap_err();
    assert_eq!(
        error.error,
        "list: it has more than 2097152 entries, the maximum"
    );
}

#[test]
fn what_would_be_lost_or_banned_by_mistake_is_refused() {
    for (text, expected) in [
        (
            r#"[{"address":"192.0.2.0","mask":24}]"#,
            "the key `mask` has the lengths of `address`",
        ),
        (
            r#"[{"CidrBlock":"192.0.2.0/24","RuleAction":"deny"},
              {"CidrBlock":"198.51.100.0/24","RuleAction":"allow"}]"#,
            "some of these are let through: `RuleAction` is `allow`",
        ),
        (
            r#"[{"sourceRanges":["192.0.2.0/24"],"denied":[{"IPProtocol":"all"}]},
              {"sourceRanges":["198.51.100.0/24"],"allowed":[{"IPProtocol":"tcp"}]}]"#,
            "some of these are let through: there is a key `allowed`",
        ),
        (
            r#"[{"pattern":"[ipv4-addr:value != '192.0.2.1']"}]"#,
            "there is no address in this JSON",
        ),
        (
            "define A = [ 192.0.2.0/24 ];\n",
            "`define` is not an address",
        ),
        (
            "192.000.002.001\t22\ttcp\n198.051.100.007\t23\ttcp\n",
            "list:1:1: `192.000.002.001` has leading zeros",
        ),
        (
            r#"[{"ip":"192.0.2.1","mode":"block"},{"ip":"192.0.2.2","mode":"whitelist"}]"#,
            "some of these are let through: `mode` is `whitelist`",
        ),
        (
            r#"{"blacklist":["192.0.2.1"],"whitelist":["192.0.2.2"]}"#,
            "several keys have addresses: `blacklist, whitelist`",
        ),
        (
            "rule remoteip=192.0.2.1,192.0.2.2\n",
            "`rule` is not an address",
        ),
        (
            "a=192.0.2.1,192.0.2.2,x\nb=192.0.2.3,192.0.2.4,y\n",
            "the columns 1 and 2 both have",
        ),
        (
            "-A INPUT -s 192.0.2.1 -j DROP\n192.0.2.2\n",
            "this address is not part of a rule",
        ),
        (
            "deny 192.0.2.1;\n192.0.2.2\n",
            "this address is not part of a rule",
        ),
        (
            "block in from 192.0.2.1\n192.0.2.2\n",
            "this address is not part of a rule",
        ),
        ("Connect:192.0.2.1 OK\n", "`OK` is not an address"),
        ("1,b,c\n2,d,e\n", "no column has addresses"),
        (
            "S>* 192.0.2.0/24 [1/0] unreachable\n",
            "`S>*` is not an address",
        ),
    ] {
        let bad = read_text(text).unwrap().bad.to_string();
        assert!(bad.contains(expected), "{text}\n{bad}");
    }
}
