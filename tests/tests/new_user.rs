//! A new user follows the README: its configuration, and its commands as written there.

use std::{fs, net::Ipv4Addr, path::Path};

use ratelimit_tests::{
    Frame, Lab,
    lab::INTERFACE,
    packet::SYN,
    require_root,
    service::{Said, Service},
};

const README: &str = include_str!("../../README.md");
const NOISY: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);
/// Exit codes of `rlctl check`.
const PASSES: i32 = 0;
const DROPPED: i32 = 3;
const CUSTOMER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);

#[test]
fn seven_tasks_are_done_with_the_commands_of_the_readme() {
    require_root!();
    let lab = Lab::new().unwrap();

    // The configuration there protects an interface.
    let toml = block("toml", "[[interface]]").replace("\"eth0\"", &format!("\"{INTERFACE}\""));
    let service = Service::started(&lab, &toml).unwrap();
    let user = User(&service);
    let file = service.config().display().to_string();
    let said = user.types("rlctl config check FILE", &[("FILE", &file)]);
    assert!(
        said.contains("valid (1 interface, 2 policies, 1 allow)"),
        "{said}"
    );
    let status = service.rlctl_ok(&[]).unwrap();
    assert!(
        status.contains(INTERFACE) && status.contains("native"),
        "{status}"
    );

    // Finds and bans the busiest source.
    send(&lab, NOISY, 400, |frame| frame.tcp(22, SYN));
    let top = user.types("rlctl top", &[("top", "top --batch -n 1")]);
    let first = top.lines().find(|it| it.contains('.')).unwrap_or_default();
    assert!(top.contains("198.51.100.9"), "{first}: {top}");
    let noisy = [("192.0.2.1", "198.51.100.9")];
    let said = user.types(
        "rlctl ban 192.0.2.1 --for 10m --reason \"login flood\"",
        &noisy,
    );
    assert!(
        said.starts_with("banned 198.51.100.9 for 10m (until "),
        "{said}"
    );
    send(&lab, NOISY, 7, |frame| frame.tcp(22, SYN));
    let said = user.learns("rlctl check 192.0.2.1", &noisy, DROPPED);
    for line in [
        "packets from 198.51.100.9 are dropped (banned)",
        "rule: the ban of 198.51.100.9",
        "why: login flood",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }

    // It was wrong, and is lifted.
    user.types("rlctl unban 192.0.2.1", &noisy);
    let said = user.learns("rlctl check 192.0.2.1", &noisy, PASSES);
    assert!(!said.contains("banned)"), "{said}");

    // The user looks for the reason packets to a port are dropped, while others of that customer
    // pass.
    let narrow = toml.replace(
        "limits = [{ bytes = \"100MB\", per = \"1s\" }]",
        "limits = [{ bytes = \"100MB\", per = \"1s\" }, \
         { packets = 2, per = \"1h\", match = \"udp\" }]",
    );
    assert_ne!(narrow, toml);
    service.configure(&narrow).unwrap();
    user.types("rlctl reload", &[]);
    send(&lab, CUSTOMER, 5, |frame| frame.udp(53));
    let port = "rlctl check 203.0.113.9 --proto udp --dport 53";
    let said = user.learns(port, &[], DROPPED);
    assert!(
        said.contains("dropped (limited: ") && said.contains("2 packets per 1h of udp"),
        "{said}"
    );
    let said = user.types(port, &[("udp --dport 53", "tcp --dport 443")]);
    assert!(said.contains("pass"), "{said}");

    // The customer gets more for two hours.
    let said = user.types(
        "rlctl limit set --prefix 203.0.113.0/24 --packets 5000 --per 1s --for 2h",
        &[],
    );
    assert!(said.contains("2h"), "{said}");
    let said = user.types(port, &[]);
    assert!(
        said.contains("pass") && said.contains("5000 packets per 1s"),
        "{said}"
    );

    // A file that is wrong is refused by its line, one that was a mistake is taken back.
    let new = service.path("new.toml").display().to_string();
    let file = [("new.toml", new.as_str())];
    let now = fs::read_to_string(service.config()).unwrap();
    fs::write(&new, now.replace("packets = 1000", "packet = 1000")).unwrap();
    let apply = "rlctl apply new.toml --confirm 60s";
    let said = user.says(apply, &file);
    assert_ne!(said.code, 0, "{said:?}");
    assert!(
        said.stderr.contains("new.toml:") && said.stderr.contains("`packets`"),
        "{said:?}"
    );
    fs::write(&new, now.replace("packets = 1000", "packets = 1")).unwrap();
    user.types(apply, &file);
    let shown = || service.rlctl_ok(&["config", "show"]).unwrap();
    assert!(shown().contains("{ packets = 1, per"), "{}", shown());
    user.types("rlctl rollback", &[]);
    assert!(shown().contains("{ packets = 1000, per"), "{}", shown());

    // A bug report.
    let archive = service.path("report.tar.gz").display().to_string();
    let config = service.config().display().to_string();
    let options = format!("--archive {archive} --config {config}");
    user.types("rlctl doctor --archive", &[("--archive", &options)]);
    assert!(fs::metadata(Path::new(&archive)).unwrap().len() > 1000);
}

/// A user who types the commands of the README.
struct User<'s>(&'s Service);

impl User<'_> {
    /// Asks what happens to packets, which the exit code says too.
    fn learns(&self, line: &str, own: &[(&str, &str)], code: i32) -> String {
        let said = self.says(line, own);
        assert_eq!(said.code, code, "{line}: {said:?}");
        said.stdout
    }

    /// Types a command of the README, with some names replaced, and returns its output on success.
    fn types(&self, line: &str, own: &[(&str, &str)]) -> String {
        let said = self.says(line, own);
        assert_eq!(said.code, 0, "{line}: {said:?}");
        said.stdout
    }

    fn says(&self, line: &str, own: &[(&str, &str)]) -> Said {
        assert!(README.contains(line), "the README has no `{line}`");
        let line = line.strip_prefix("rlctl ").unwrap();
        let line = own.iter().fold(line.to_owned(), |line, (theirs, own)| {
            line.replacen(theirs, own, 1)
        });
        // A quoted part is one word.
        let parts = line.split('"').enumerate();
        let words: Vec<&str> = parts
            .flat_map(|(index, part)| match index % 2 {
                0 => part.split_whitespace().collect(),
                _ => vec![part],
            })
            .collect();
        self.0.rlctl(&words).unwrap()
    }
}

/// The first block of a language that begins so.
fn block(language: &str, begin: &str) -> String {
    let fence = format!("```{language}\n{begin}");
    let start = README.find(&fence).unwrap() + fence.len() - begin.len();
    let length = README[start..].find("```").unwrap();
    README[start..start + length].to_owned()
}

fn send(lab: &Lab, source: Ipv4Addr, packets: u64, shape: impl Fn(Frame) -> Frame) {
    let frame = shape(Frame::ethernet().ipv4(source)).pad_to(60).build();
    lab.send(&frame, packets).unwrap();
}
