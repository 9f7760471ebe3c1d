use super::*;

const CONTRIB: &str = include_str!("../../../../contrib/config.toml");

#[test]
fn the_installed_file_says_the_defaults() {
    let minimal = MINIMAL.replace("limits = []", "limits = [{ packets = 1000, per = \"1s\" }]");
    let expected = Config {
        files: vec![],
        ..load_text(&minimal)
    };
    let installed = Config {
        files: vec![],
        ..load_text(CONTRIB)
    };
    assert_eq!(installed, expected);
    check_warnings(CONTRIB, "");
}

#[test]
fn the_examples_of_the_installed_file_are_right() {
    let config = load_text(&with_examples());
    assert_eq!(config.interfaces.len(), 2);
    assert_eq!(config.default_policy.limits.len(), 6);
    assert_eq!(config.classes.iter().count(), 4);
    assert_eq!(
        (config.aggregate.ipv4.len(), config.aggregate.ipv6.len()),
        (1, 2)
    );
    assert_eq!(config.node.limits.len(), 2);
    assert!(config.default_policy.ban.is_some());
    assert!(config.fold.is_some());
    assert!(config.crowdsec.is_some());
    assert!(config.upstream.is_some());
    assert_eq!(&*config.cluster.unwrap().node, "edge-1");
    assert_eq!(config.policies["partner"].sources.len(), 2);
    assert_eq!(
        config.keys.spaces["users"].on_refused.map(|it| it.after),
        Some(100)
    );
    assert_eq!(
        config.lists["spamhaus"].every,
        Some(Duration::from_hours(1))
    );
    check_warnings(&with_examples(), "");
}

#[test]
fn the_installed_file_shows_every_key() {
    let keys = "observe clock on_stop interface name mode source ipv4_prefix ipv6_prefix capacity \
                sliding_logs tunnels chain policy limits packets bytes per algorithm burst match \
                class protocol source_ports destination_ports tcp fragment destination ban after \
                within for factor max forgeable detection bans_per_minute forgeable_per_minute \
                threshold subnet ipv4 ipv6 prefix node sources allow protected list file url every \
                action skip_bad force allow_empty connected crowdsec url key_file cluster ca_file \
                cert_file secret_file period nodes keys trusted_proxies requests key header \
                on_refused within scope division metrics listen dashboard token_file history \
                retention watch fold percent snapshot min_window paths pins state runtime";
    let examples = with_examples();
    let code: Vec<&str> = examples
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    for key in keys.split_whitespace() {
        assert!(code.join("\n").contains(key), "{key} is missing");
    }
}

/// The file with its examples switched on: lines that begin with `#` and no space, or with more
/// than one.
fn with_examples() -> String {
    let lines = CONTRIB.lines().map(|line| match line.strip_prefix('#') {
        Some(example) if is_example(example) => example,
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn is_example(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphanumeric() || "[]".contains(c)) || text.starts_with("  {")
}
