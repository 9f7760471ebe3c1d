//! Replacements that a program may make for a wrong value; the result is valid.

use super::{MINIMAL, inspect_files};

#[test]
fn what_is_to_be_put_in_a_place_mends_what_was_wrong_there() {
    for (wrong, mended) in [
        ("[metrics]\ndashbord = true\n", "dashboard = true"),
        ("[metrics]\ndashboard = \"true\"\n", "dashboard = true"),
        ("[source]\nipv4_prefix = 33\n", "ipv4_prefix = 32"),
        ("[source]\nipv4_prefix = \"24\"\n", "ipv4_prefix = 24"),
        ("[source]\nstore = \"compakt\"\n", "store = \"compact\""),
        (
            "[allow]\nsources = \"192.0.2.1\"\n",
            "sources = [\"192.0.2.1\"]",
        ),
        (
            "[allow]\nsources = [\"192.0.2.1/24\"]\n",
            "[\"192.0.2.0/24\"]",
        ),
        ("[source]\nstore = compact\n", "store = \"compact\""),
        (
            "[history]\n\
             watch = [\"policy:partne\"]\n\
             [policy.partner]\n\
             sources = [\"192.0.2.1\"]\n\
             limits = []\n",
            "[\"policy:partner\"]",
        ),
        (
            "[node]\nlimits = [{ packets = 9, per = \"1s\", match = \"tcp-sin\" }]\n",
            "match = \"tcp-syn\"",
        ),
        (
            "[class.dns]\n\
             protocol = \"udq\"\n\
             destination_ports = [53]\n\
             [node]\n\
             limits = [{ packets = 9, per = \"1s\", match = \"dns\" }]\n",
            "protocol = \"udp\"",
        ),
    ] {
        let toml = format!("{MINIMAL}{wrong}");
        let (answer, _directory) = inspect_files(&[("config.toml", &toml)]);
        let error = answer.unwrap_err();
        let [diagnostic] = error.diagnostics() else {
            panic!("{wrong}: {error}");
        };
        let position = diagnostic.position.as_ref().unwrap();
        let replacement = diagnostic.problem.replacement.as_deref();
        let replacement = replacement.unwrap_or_else(|| panic!("{wrong}: {error}"));
        let mut lines: Vec<String> = toml.lines().map(str::to_owned).collect();
        let line = &mut lines[position.line - 1];
        line.replace_range(position.column - 1..position.end_column - 1, replacement);
        assert!(line.contains(mended), "{wrong}: {line}");
        let (answer, _directory) = inspect_files(&[("config.toml", &lines.join("\n"))]);
        if let Err(error) = answer {
            panic!("{wrong}: {error}");
        }
    }
}

/// Only the author knows the intended value.
#[test]
fn where_it_is_not_known_what_was_meant_nothing_is_to_be_put_there() {
    for wrong in [
        "[nothing]\n",
        "[allow]\nsources = [\"nobody\"]\n",
        "[allow]\nfile = \"x\"\n",
    ] {
        let (answer, _directory) = inspect_files(&[("config.toml", &format!("{MINIMAL}{wrong}"))]);
        let error = answer.unwrap_err();
        assert_eq!(error.diagnostics()[0].problem.replacement, None, "{error}");
    }
}
