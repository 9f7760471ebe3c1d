//! Bans in the name of programs.

use ratelimit_core::api::{ProgramBanRequest, ProgramUnbanRequest, What};

use super::*;

#[test]
fn a_program_changes_and_ends_its_own_bans_only() {
    let mut lab = Lab::new(config());
    lab.ban(&["192.0.2.1"], None).unwrap();
    lab.ban_by("fail2ban/sshd", "192.0.2.1", Some(600.0))
        .unwrap();
    lab.ban_by("fail2ban/web", "192.0.2.1", None).unwrap();
    let changed = lab
        .ban_by("fail2ban/sshd", "192.0.2.1", Some(900.0))
        .unwrap();
    assert_eq!((changed.added, changed.updated), (0, 1));
    let changed = lab.unban_by("fail2ban/sshd", &["192.0.2.1", "192.0.2.2"]);
    assert_eq!(
        (changed.removed, changed.absent),
        (1, vec![prefix("192.0.2.2")])
    );
    let events = lab.events();
    let ended = events.iter().find_map(|event| {
        let What::BanRemoved { by, .. } = &event.what else {
            return None;
        };
        by.as_deref()
    });
    assert_eq!(ended, Some("root"));
    let bans = lab.listed_bans();
    let origins: Vec<String> = bans.iter().map(|ban| ban.origin.to_string()).collect();
    assert_eq!(origins, ["manual", "program:fail2ban/web"]);
    lab.restart();
    assert_eq!(lab.listed_bans().len(), 2);
}

#[test]
fn unban_by_hand_ends_the_bans_of_programs_too() {
    let mut lab = Lab::new(config());
    lab.ban_by("fail2ban/sshd", "192.0.2.1", None).unwrap();
    assert_eq!(lab.unban(&["192.0.2.1"]).unwrap().removed, 1);
    assert!(!lab.is_banned("192.0.2.1"));
}

#[test]
fn what_would_cut_the_host_off_and_what_is_no_name_is_refused() {
    let mut lab = Lab::new(config());
    let refused = lab.ban_by("fail2ban/sshd", "::/0", None).unwrap_err();
    assert_eq!(refused.error, "a ban of ::/0 would cut this host off");
    let long = "x".repeat(65);
    for name in ["", "two words", "line\nbreak", &long] {
        let refused = lab.ban_by(name, "192.0.2.1", None).unwrap_err();
        assert!(
            refused.error.contains("is not a valid program name"),
            "{}",
            refused.error
        );
    }
}

impl Lab {
    fn ban_by(
        &mut self,
        program: &str,
        text: &str,
        seconds: Option<f64>,
    ) -> Result<Changed, Refused> {
        let request = ProgramBanRequest {
            program: program.to_owned(),
            prefixes: vec![prefix(text)],
            seconds,
            forever: seconds.is_none(),
            reason: None,
            ..ProgramBanRequest::default()
        };
        self.ban_by_program(request, "root")
    }

    fn unban_by(&mut self, program: &str, texts: &[&str]) -> Changed {
        let request = ProgramUnbanRequest {
            program: program.to_owned(),
            prefixes: texts.iter().map(|text| prefix(text)).collect(),
            ..ProgramUnbanRequest::default()
        };
        self.unban_by_program(request, "root").unwrap()
    }
}
