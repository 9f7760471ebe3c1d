//! Runtime limits that do not fit the configuration.

use super::{wide::read, *};

const PLAIN: &str = "[policy.default]\nlimits = [{ packets = 10, per = \"1s\" }]\n";
const GAMES: &str = "[class.games]\nprotocol = \"udp\"\ndestination_ports = [27015]\n";

#[test]
fn limits_of_a_class_that_is_gone_are_inactive_at_the_start_and_hold_again_with_it() {
    let with_games = format!("{PLAIN}{GAMES}");
    let mut lab = Lab::new(read(&with_games));
    lab.limit_to("198.51.100.0/24", "games");
    assert_eq!(lab.policy_amount("198.51.100.1"), 9);
    lab.start(PLAIN);
    assert_eq!(lab.policy_amount("198.51.100.1"), 10);
    let inactive = lab.status().database.inactive;
    assert_eq!(inactive[0].policy, "198.51.100.0/24");
    assert!(inactive[0].error.contains("`games`"), "{inactive:?}");
    assert_eq!(queries::limits(&lab.state).len(), 1);
    // Whatever else changes.
    lab.limit(Some("198.51.101.0/24"), 5).unwrap();
    lab.load(PLAIN).unwrap();
    assert_eq!(lab.policy_amount("198.51.100.1"), 10);
    lab.load(&with_games).unwrap();
    assert_eq!(lab.policy_amount("198.51.100.1"), 9);
    assert_eq!(lab.status().database.inactive, []);
    let error = lab.load(PLAIN).unwrap_err().to_string();
    assert!(error.contains("`games`"), "{error}");
    assert_eq!(lab.policy_amount("198.51.100.1"), 9);
}

#[test]
fn limits_that_are_inactive_can_be_replaced_and_taken_away() {
    let mut lab = Lab::new(read(&format!("{PLAIN}{GAMES}")));
    lab.limit_to("198.51.100.0/24", "games");
    lab.limit_to("198.51.101.0/24", "games");
    lab.start(PLAIN);
    lab.limit(Some("198.51.100.0/24"), 5).unwrap();
    assert_eq!(lab.policy_amount("198.51.100.1"), 5);
    lab.unlimit(Some("198.51.101.0/24")).unwrap();
    assert_eq!(lab.status().database.inactive, []);
    lab.start(PLAIN);
    assert_eq!(lab.state.intent.limits().len(), 1);
}

#[test]
fn the_youngest_limits_are_inactive_where_there_are_too_many_classes() {
    let mut lab = Lab::new(read(PLAIN));
    for (number, class) in ["tcp", "udp", "icmp", "tcp-syn"].into_iter().enumerate() {
        lab.limit_to(&format!("198.51.{number}.0/24"), class);
    }
    let policy = |number: u16| {
        let limits = (0..7).map(|port| {
            let port = 7 * number + port + 1;
            format!("{{ packets = 8, per = \"1s\", match = {{ source_ports = [{port}] }} }}")
        });
        let limits = limits.collect::<Vec<_>>().join(", ");
        format!("[policy.p{number}]\nsources = [\"10.{number}.0.0/16\"]\nlimits = [{limits}]\n")
    };
    // After a boot: no class is in the kernel.
    lab.memory.reboot().unwrap();
    lab.start(&format!(
        "{PLAIN}{}",
        (0..4).map(policy).collect::<String>()
    ));
    assert_eq!(lab.policy_amount("198.51.2.1"), 9);
    assert_eq!(lab.policy_amount("198.51.3.1"), 10);
    assert_eq!(lab.policy_amount("10.3.0.1"), 8);
    lab.load(PLAIN).unwrap();
    assert_eq!(lab.policy_amount("198.51.3.1"), 9);
}

impl Lab {
    /// A new daemon with another configuration over the same tables and database.
    fn start(&mut self, toml: &str) {
        self.config = read(toml);
        self.start_again();
    }

    fn load(&mut self, toml: &str) -> anyhow::Result<()> {
        self.replace_config(read(toml))
    }

    fn limit_to(&mut self, target: &str, class: &str) {
        let request = LimitRequest {
            prefix: Some(prefix(target)),
            limits: vec![limit(9).of_class(Match::Named(class.to_owned()))],
            only: true,
            ..LimitRequest::default()
        };
        self.set_limits(request, "root").unwrap();
    }
}
