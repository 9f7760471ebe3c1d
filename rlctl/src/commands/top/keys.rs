//! Keys of the live view.
#![expect(clippy::wildcard_enum_match_arm, reason = "other keys do nothing")]

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratelimit_core::prefix::Prefix;

use super::rates::Row;

/// The sort key of sources.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Sort {
    /// The level of the limits.
    #[default]
    Level,
    /// Rate of refused packets.
    Refused,
    /// Rate of admitted packets.
    Admitted,
    /// By address.
    SourceConfig,
}

/// The choices of the user.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Choice {
    /// The order of the sources.
    pub sort: Sort,
    /// Part of the address or the policy of those that are shown.
    pub filter: String,
    /// Whether refreshing is paused.
    pub paused: bool,
    /// The source that is marked.
    pub marked: Option<Prefix>,
    /// The meaning of keys.
    pub asked: KeyMode,
    /// Result of the last action.
    pub said: String,
}

/// The meaning of keys.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum KeyMode {
    /// To move and choose.
    #[default]
    Nothing,
    /// To write the filter.
    Filter,
    /// A key answers whether to ban this prefix.
    Ban(Prefix),
}

/// An action outside of the view.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// The end.
    Quit,
    /// Bans for a number of seconds, or permanently.
    Ban(Prefix, Option<f64>),
}

/// The duration of a ban from the list, in seconds.
const BAN_SECONDS: f64 = 600.0;

impl Sort {
    const fn next(self) -> Self {
        match self {
            Self::Level => Self::Refused,
            Self::Refused => Self::Admitted,
            Self::Admitted => Self::SourceConfig,
            Self::SourceConfig => Self::Level,
        }
    }

    /// Returns the name of the order.
    pub fn label(self) -> &'static str {
        self.into()
    }
}

impl Choice {
    /// The sources that are shown, in their order.
    pub fn shown<'a>(&self, rows: &'a [Row]) -> Vec<&'a Row> {
        let has = |row: &&Row| {
            let source = row.source.to_string();
            source.contains(&self.filter) || row.policy.contains(&self.filter)
        };
        let mut shown: Vec<&Row> = rows.iter().filter(has).collect();
        match self.sort {
            Sort::Level => shown.sort_by_key(|row| std::cmp::Reverse(row.percent())),
            Sort::Refused => shown.sort_by(|left, right| {
                let rates = [right, left].map(|row| row.refused_packets_per_second);
                let [right_rate, left_rate] = rates;
                right_rate
                    .total_cmp(&left_rate)
                    .then(right.refused_packets.cmp(&left.refused_packets))
            }),
            Sort::Admitted => shown.sort_by(|left, right| {
                let rate = |row: &Row| row.admitted_per_second.unwrap_or_default();
                rate(right).total_cmp(&rate(left))
            }),
            Sort::SourceConfig => shown.sort_by_key(|row| row.source),
        }
        shown
    }

    pub fn take(&mut self, key: KeyEvent, rows: &[Row]) -> Option<Action> {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Some(Action::Quit);
        }
        match self.asked {
            KeyMode::Nothing => self.choose(key.code, rows),
            KeyMode::Filter => {
                self.write(key.code);
                None
            }
            KeyMode::Ban(source) => {
                self.asked = KeyMode::Nothing;
                match key.code {
                    KeyCode::Char('y') => Some(Action::Ban(source, Some(BAN_SECONDS))),
                    KeyCode::Char('f') => Some(Action::Ban(source, None)),
                    _ => {
                        self.said = format!("{source} was not banned");
                        None
                    }
                }
            }
        }
    }

    fn choose(&mut self, key: KeyCode, rows: &[Row]) -> Option<Action> {
        // The last line has the keys again.
        self.said.clear();
        match key {
            KeyCode::Char('q') | KeyCode::Esc => return Some(Action::Quit),
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('/') => self.asked = KeyMode::Filter,
            KeyCode::Down | KeyCode::Char('j') => self.mark(rows, 1),
            KeyCode::Up | KeyCode::Char('k') => self.mark(rows, -1),
            KeyCode::Char('b') => match self.marked {
                Some(source) => self.asked = KeyMode::Ban(source),
                None => "select a source first with the arrow keys".clone_into(&mut self.said),
            },
            _ => {}
        }
        None
    }

    fn write(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.asked = KeyMode::Nothing,
            KeyCode::Esc => {
                self.filter.clear();
                self.asked = KeyMode::Nothing;
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
    }

    /// Moves the selection.
    fn mark(&mut self, rows: &[Row], places: isize) {
        let shown = self.shown(rows);
        let place = shown.iter().position(|row| Some(row.source) == self.marked);
        let next = match place {
            Some(place) => place.saturating_add_signed(places).min(shown.len() - 1),
            None => 0,
        };
        self.marked = shown.get(next).map(|row| row.source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_banned_after_a_question() {
        let rows = rows();
        let mut choice = Choice::default();
        assert_eq!(press(&mut choice, "b", &rows), None);
        assert_eq!(choice.asked, KeyMode::Nothing);
        press(&mut choice, "jj", &rows);
        let second = rows[1].source;
        assert_eq!(press(&mut choice, "b", &rows), None);
        assert_eq!(choice.asked, KeyMode::Ban(second));
        let ban = Action::Ban(second, Some(BAN_SECONDS));
        assert_eq!(press(&mut choice, "y", &rows), Some(ban));
        assert_eq!(press(&mut choice, "bn", &rows), None);
        assert_eq!(
            press(&mut choice, "bf", &rows),
            Some(Action::Ban(second, None))
        );
        assert_eq!(press(&mut choice, "q", &rows), Some(Action::Quit));
    }

    #[test]
    fn sources_are_sorted_and_filtered() {
        let rows = rows();
        let mut choice = Choice::default();
        let shown = |choice: &Choice| {
            let shown = choice.shown(&rows);
            let shown = shown.iter().map(|row| row.source.to_string());
            shown.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown(&choice), "192.0.2.3 192.0.2.1 192.0.2.2");
        press(&mut choice, "s", &rows);
        assert_eq!(shown(&choice), "192.0.2.2 192.0.2.3 192.0.2.1");
        press(&mut choice, "ss", &rows);
        assert_eq!(shown(&choice), "192.0.2.1 192.0.2.2 192.0.2.3");
        press(&mut choice, "/2.2", &rows);
        assert_eq!(shown(&choice), "192.0.2.2");
    }

    fn press(choice: &mut Choice, keys: &str, rows: &[Row]) -> Option<Action> {
        let keys = keys.chars().map(|key| KeyEvent::from(KeyCode::Char(key)));
        keys.map(|key| choice.take(key, rows)).last().flatten()
    }

    /// Their order is that of the daemon.
    fn rows() -> Vec<Row> {
        let row = |source: &str, used, refused_packets_per_second| Row {
            source: source.parse().unwrap(),
            policy: "default".to_owned(),
            limit: Some(super::super::tests::level(used)),
            admitted_per_second: None,
            refused_packets_per_second,
            refused_packets: 0,
            ban: None,
            sending: None,
        };
        vec![
            row("192.0.2.3", 9, 1.0),
            row("192.0.2.1", 9, 0.0),
            row("192.0.2.2", 1, 5.0),
        ]
    }
}
