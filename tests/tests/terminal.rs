//! `rlctl top` on a real terminal: keys are pressed in tmux, and its screen is read.

use std::{net::Ipv4Addr, path::Path, thread, time::Duration};

use ratelimit_tests::{
    Lab,
    lab::Sender,
    packet::datagram,
    require_command, require_root,
    service::{Service, binary},
    waiting,
};

const TOML: &str = "[policy.default]\nlimits = [{ packets = 3, per = \"1h\" }]\n";

#[test]
fn top_sorts_filters_pauses_and_bans_by_keys() {
    require_root!();
    require_command!("tmux");
    let (lab, service) = Service::in_lab(TOML).unwrap();
    send(&lab, 9, 40);
    send(&lab, 10, 5);
    let terminal = Terminal::start(&service);
    terminal.wait_for("both", |it| {
        it.contains("198.51.100.9") && it.contains("198.51.100.10")
    });
    terminal.wait_for("the keys", |it| {
        it.contains("q quit   s sort   / filter   p pause")
    });
    let screen = terminal.screen();
    assert!(
        screen.starts_with("rlctl top ") && screen.contains("rl0 native  0 bans  by level"),
        "{screen}"
    );
    terminal.press(&["s"]);
    terminal.wait_for("another order", |it| it.contains("by refused"));
    let place = |screen: &str, source: &str| screen.find(source).unwrap();
    terminal.wait_for("the noisier one above", |it| {
        place(it, "198.51.100.9 ") < place(it, "198.51.100.10")
    });
    terminal.press(&["s", "s"]);
    terminal.wait_for("the order of addresses", |it| it.contains("by source"));

    terminal.press(&["/", "1", "0", "0", ".", "1", "0"]);
    terminal.wait_for("the filter", |it| {
        it.contains("filter: 100.10_   Enter apply   Esc clear")
    });
    terminal.press(&["Enter"]);
    terminal.wait_for("one of two", |it| {
        it.contains("with `100.10`") && !it.contains("198.51.100.9 ")
    });
    terminal.press(&["Down", "b"]);
    let question = "ban 198.51.100.10?   y 10 minutes   f forever   any other key cancel";
    terminal.wait_for("a question", |it| it.contains(question));
    terminal.press(&["n"]);
    terminal.wait_for("no ban", |it| it.contains("198.51.100.10 was not banned"));
    assert_eq!(
        service
            .rlctl_ok(&["list", "bans", "--json"])
            .unwrap()
            .trim(),
        "[]"
    );
    terminal.press(&["b"]);
    terminal.wait_for("a question", |it| it.contains(question));
    terminal.press(&["y"]);
    terminal.wait_for("a ban", |it| {
        it.contains("banned 198.51.100.10; undo: rlctl unban 198.51.100.10")
    });
    let bans = service.rlctl_ok(&["list", "bans"]).unwrap();
    assert!(bans.contains("198.51.100.10"), "{bans}");
    // It stays in the list, with the time that is left.
    terminal.wait_for("the ban in its line", |it| {
        it.lines()
            .any(|line| line.contains("198.51.100.10 ") && line.contains("9m"))
    });

    terminal.press(&["/", "Escape"]);
    terminal.wait_for("no filter", |it| {
        it.contains("198.51.100.9 ") && !it.contains("with `")
    });
    terminal.press(&["p"]);
    terminal.wait_for("the pause and the keys", |it| {
        it.contains("PAUSED") && it.contains("q quit   s sort")
    });
    send(&lab, 11, 5);
    thread::sleep(Duration::from_secs(1));
    assert!(!terminal.screen().contains("198.51.100.11"));
    terminal.press(&["p"]);
    terminal.wait_for("what came meanwhile", |it| it.contains("198.51.100.11"));
    // The size of the window is that of the picture.
    terminal.tmux(&["resize-window", "-x", "60", "-y", "12"]);
    terminal.wait_for("a smaller picture", |it| {
        it.lines().count() <= 12
            && it.contains("198.51.100.9 ")
            && it.contains(" LEVEL  REFUSED/S BAN")
    });
    terminal.press(&["q"]);
    terminal.wait_for("the shell", |it| it.contains("ended with 0"));
    // The previous content of the terminal is restored.
    let screen = terminal.screen();
    assert!(
        screen.contains("before top") && !screen.contains("rlctl top "),
        "{screen}"
    );
}

fn send(lab: &Lab, last: u8, packets: usize) {
    let sender = Sender::new(&lab.far).unwrap();
    let source = Ipv4Addr::new(198, 51, 100, last);
    let frame = datagram(source);
    for _ in 0..packets {
        sender.send(&frame).unwrap();
    }
}

/// A terminal of 120 columns and 30 lines on which top runs.
struct Terminal<'s>(&'s Service);

impl<'s> Terminal<'s> {
    fn start(service: &'s Service) -> Self {
        let terminal = Self(service);
        let rlctl = binary("rlctl").display().to_string();
        let socket = service.path("run/control.sock").display().to_string();
        let line = format!(
            "echo before top; {rlctl} --socket {socket} top --interval 200ms; echo ended with $?; \
             exec sleep 600"
        );
        let size = ["-x", "120", "-y", "30"];
        terminal.tmux(
            &[
                &["-f", "/dev/null", "new-session", "-d"],
                &size[..],
                &["sh", "-c", &line],
            ]
            .concat(),
        );
        terminal
    }

    fn press(&self, keys: &[&str]) {
        for key in keys {
            self.tmux(&["send-keys", key]);
            // Escape and a key at once are another key.
            thread::sleep(Duration::from_millis(60));
        }
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    fn wait_for(&self, what: &str, is_there: impl Fn(&str) -> bool) {
        waiting::until(
            || is_there(&self.screen()),
            || format!("{what}:\n{}", self.screen()),
        );
    }

    fn tmux(&self, words: &[&str]) -> String {
        let mut tmux = self.0.inside(Path::new("tmux"));
        tmux.arg("-u").arg("-S").arg(self.0.path("tmux"));
        let output = tmux.args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        let mut tmux = self.0.inside(Path::new("tmux"));
        tmux.arg("-S").arg(self.0.path("tmux")).arg("kill-server");
        let _ = tmux.output();
    }
}
