//! The screen.

use jiff::Zoned;
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Paragraph, Row as Cells, Table, TableState},
};
use ratelimit_core::api::{ChallengeStatus, Status};

use super::{
    SOURCE_HEAD,
    keys::{Choice, KeyMode},
    rates::{Picture, Row},
};
use crate::{commands::stats::VerdictRate, output::printable, phrase};

const REFUSED_RATE: usize = 4;
const LIMIT: usize = 7;
const SENDS: usize = 8;
/// Columns that are hidden on a narrow terminal, in this order: limit, policy, counters beside the
/// refused rate, and packets sent.
const GIVE_WAY: [usize; 5] = [LIMIT, 1, 5, 2, SENDS];
const VERDICT_HEAD: [&str; 4] = ["ACTION", "REASON", ">PACKETS/S", ">BYTES/S"];
/// The number of verdicts on the screen.
const VERDICTS_SHOWN: usize = 8;
const PLAIN: Style = Style::new();
const HEAD: Style = Style::new().add_modifier(Modifier::BOLD);
const MARKED: Style = Style::new().add_modifier(Modifier::REVERSED);
const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
const WARNING: Style = Style::new().fg(Color::Yellow);
const GOOD: Style = Style::new().fg(Color::Green);

/// Draws everything.
pub fn draw(
    frame: &mut Frame<'_>,
    picture: &Picture,
    status: Option<&Status>,
    choice: &Choice,
    now: &Zoned,
) {
    let verdicts = picture.verdicts.len().clamp(1, VERDICTS_SHOWN);
    let verdicts = u16::try_from(verdicts).unwrap_or(1) + 2;
    let [head, above, below, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(verdicts),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(title(status, choice, now)), head);
    draw_verdicts(frame, &picture.verdicts, above);
    draw_sources(frame, picture, choice, now, below);
    frame.render_widget(Paragraph::new(last_line(choice)), foot);
}

/// The line with interfaces and failures.
fn title(status: Option<&Status>, choice: &Choice, now: &Zoned) -> Line<'static> {
    let mut spans = vec![
        Span::styled("rlctl top ", HEAD),
        Span::raw(now.strftime("%H:%M:%S").to_string()),
    ];
    for interface in status.iter().flat_map(|status| &status.interfaces) {
        let name = printable(&interface.name);
        spans.push(match &interface.mode {
            Some(mode) if interface.attached => Span::raw(format!("  {name} {}", printable(mode))),
            _ => Span::styled(format!("  {name} NOT ATTACHED"), BAD),
        });
    }
    if let Some(status) = status {
        spans.push(Span::raw(format!(
            "  {}",
            phrase::count(status.bans, "ban", "bans")
        )));
        if status.pass_all.is_some() {
            spans.push(Span::styled("  pass-all is on", BAD));
        }
        if status.observe {
            spans.push(Span::styled("  dry run", WARNING));
        }
        spans.extend(status.challenge.as_ref().and_then(challenge));
        for attack in &status.attacks {
            let text = format!("  {} {}", attack.kind.label(), printable(&attack.subject));
            spans.push(Span::styled(text, BAD));
        }
    }
    spans.push(Span::raw(format!("  by {}", choice.sort.label())));
    if !choice.filter.is_empty() {
        spans.push(Span::styled(format!("  with `{}`", choice.filter), WARNING));
    }
    if choice.paused {
        spans.push(Span::styled("  PAUSED", WARNING));
    }
    Line::from(spans)
}

fn challenge(challenge: &ChallengeStatus) -> Option<Span<'static>> {
    let note = Span::styled("  challenge is on", WARNING);
    let is_on_for_dns = challenge.dns.as_ref().is_some_and(|dns| dns.is_on);
    (challenge.is_on || is_on_for_dns).then_some(note)
}

fn draw_verdicts(frame: &mut Frame<'_>, verdicts: &[VerdictRate], area: Rect) {
    let rows = verdicts.iter().take(VERDICTS_SHOWN).map(|verdict| {
        let style = match verdict.action.as_str() {
            "drop" => BAD,
            "observe" => WARNING,
            _ => GOOD,
        };
        let texts = [
            verdict.action.clone(),
            verdict.reason.clone(),
            phrase::rate(verdict.packets_per_second),
            format!("{}B", phrase::rate(verdict.bytes_per_second)),
        ];
        let styles = [style, PLAIN, PLAIN, PLAIN];
        cells(VERDICT_HEAD.into_iter().zip(texts).zip(styles))
    });
    let widths = [8, 20, 12, 12].map(Constraint::Length);
    let table = Table::new(rows, widths).header(header(VERDICT_HEAD));
    frame.render_widget(table, area);
}

fn draw_sources(
    frame: &mut Frame<'_>,
    picture: &Picture,
    choice: &Choice,
    now: &Zoned,
    area: Rect,
) {
    let shown = choice.shown(&picture.sources);
    let place = shown
        .iter()
        .position(|row| Some(row.source) == choice.marked);
    let width = shown.iter().map(|row| row.source.to_string().len());
    let width = u16::try_from(width.max().unwrap_or(6).max(6)).unwrap_or(u16::MAX);
    let widths = [width, 12, 10, 5, 10, 10, 16, 10, SENDS_WIDTH];
    let kept = fitting(widths, area.width);
    let columns: Vec<&str> = SOURCE_HEAD.split(" | ").collect();
    let rows = shown.iter().map(|row| {
        let (texts, styles) = source(row, now);
        let cell = |&it: &usize| ((columns[it], texts[it].clone()), styles[it]);
        cells(kept.iter().map(cell))
    });
    let constraints = kept.iter().map(|column| match *column {
        LIMIT => Constraint::Min(widths[LIMIT]),
        column => Constraint::Length(widths[column]),
    });
    let head = kept.iter().map(|column| columns[*column]);
    let table = Table::new(rows, constraints)
        .header(header(head).top_margin(1))
        .row_highlight_style(MARKED);
    let mut state = TableState::default().with_selected(place);
    frame.render_stateful_widget(table, area, &mut state);
}

/// `later-fragments`, `tcp-syn to 65535`
const SENDS_WIDTH: u16 = 16;

/// The columns that fit into a width. A narrow terminal shows fewer, and each whole.
fn fitting(widths: [u16; 9], room: u16) -> Vec<usize> {
    let mut kept: Vec<usize> = (0..widths.len()).collect();
    let taken = |kept: &[usize]| -> u16 { kept.iter().map(|column| widths[*column] + 1).sum() };
    for column in GIVE_WAY {
        if taken(&kept) <= room + 1 {
            break;
        }
        kept.retain(|it| *it != column);
    }
    kept
}

/// Cells of a source with their styles.
fn source(row: &Row, now: &Zoned) -> ([String; 9], [Style; 9]) {
    let mut texts = super::cells(row, now);
    if row.refused_packets_per_second <= 0.0 {
        texts[REFUSED_RATE].clear();
    }
    let level = match row.percent() {
        100.. => BAD,
        80.. => WARNING,
        _ => PLAIN,
    };
    let styles = [PLAIN, PLAIN, PLAIN, level, BAD, PLAIN, BAD, PLAIN, PLAIN];
    (texts, styles)
}

/// The names of columns.
fn header<'a>(names: impl IntoIterator<Item = &'a str>) -> Cells<'static> {
    let cell = |name: &'a str| ((name, name.trim_start_matches('>').to_owned()), HEAD);
    cells(names.into_iter().map(cell))
}

/// A row under its columns: words are left-aligned, numbers (`>`) right-aligned.
fn cells<'a>(cells: impl IntoIterator<Item = ((&'a str, String), Style)>) -> Cells<'static> {
    let lines = cells.into_iter().map(|((column, text), style)| {
        let line = Line::from(Span::styled(printable(&text), style));
        if column.starts_with('>') {
            line.right_aligned()
        } else {
            line
        }
    });
    lines.collect()
}

fn last_line(choice: &Choice) -> Line<'static> {
    match choice.asked {
        KeyMode::Filter => Line::from(format!(
            "filter: {}_   Enter apply   Esc clear",
            choice.filter
        )),
        KeyMode::Ban(source) => Line::from(Span::styled(
            format!("ban {source}?   y 10 minutes   f forever   any other key cancel"),
            WARNING,
        )),
        KeyMode::Nothing if !choice.said.is_empty() => Line::from(choice.said.clone()),
        KeyMode::Nothing => {
            Line::from("q quit   s sort   / filter   p pause   arrows select   b ban")
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use ratatui::{Terminal, backend::TestBackend};
    use ratelimit_core::{
        api::{Ban, DnsChallengeStatus, EntryCounter, Origin},
        detection::Sending,
    };

    use super::*;

    #[test]
    fn it_is_reported_while_sources_are_challenged() {
        let status = |is_on| ChallengeStatus {
            when: "always".to_owned(),
            to: None,
            classes: None,
            method: "rst".to_owned(),
            lasts_seconds: 600.0,
            answers_per_second: 7,
            is_on,
            since: None,
            prefers_verified: false,
            verified: 0,
            unanswered_packets: 0,
            paused_until: None,
            dns: None,
        };
        let reported = challenge(&status(true)).unwrap();
        assert_eq!(reported.content, "  challenge is on");
        assert_eq!(challenge(&status(false)), None);
        let dns = DnsChallengeStatus {
            when: "always".to_owned(),
            ports: vec![53],
            is_on: true,
            since: None,
        };
        let status = ChallengeStatus {
            dns: Some(dns),
            ..status(false)
        };
        assert!(challenge(&status).is_some());
    }

    #[test]
    fn a_narrow_terminal_has_fewer_columns() {
        let widths = [13, 12, 10, 5, 10, 10, 16, 10, SENDS_WIDTH];
        for (room, columns) in [
            (110, vec![0, 1, 2, 3, 4, 5, 6, 7, 8]),
            (109, vec![0, 1, 2, 3, 4, 5, 6, 8]),
            (98, vec![0, 2, 3, 4, 5, 6, 8]),
            (85, vec![0, 2, 3, 4, 6, 8]),
            (64, vec![0, 3, 4, 6, 8]),
            (63, vec![0, 3, 4, 6]),
        ] {
            assert_eq!(fitting(widths, room), columns, "{room}");
        }
    }

    #[test]
    fn the_screen_shows_what_comes_and_who_is_busy_and_banned() {
        let now: Zoned = "2026-03-02T14:50:00Z[UTC]".parse().unwrap();
        let row = |source: &str, ban| Row {
            source: source.parse().unwrap(),
            policy: "default".to_owned(),
            limit: Some(super::super::tests::level(10)),
            admitted_per_second: Some(1234.0),
            refused_packets_per_second: 56_789.0,
            refused_packets: 7,
            ban,
            sending: Some(Sending {
                class: "udp".to_owned(),
                to_port: Some(9_999),
                from_port: None,
                packets_per_second: 58_000,
            }),
        };
        let ban = Ban {
            counter: EntryCounter::default(),
            prefix: "2001:db8::/64".parse().unwrap(),
            until: Some(now.timestamp() + jiff::SignedDuration::from_mins(10)),
            since: now.timestamp(),
            reason: None,
            author: "root".into(),
            origin: Origin::Manual,
            folded: None,
        };
        let picture = Picture {
            at: Timestamp::UNIX_EPOCH,
            verdicts: [
                ("drop", "limited"),
                ("drop", "challenged"),
                ("pass", "verified"),
            ]
            .map(|(action, reason)| VerdictRate {
                action: action.to_owned(),
                reason: reason.to_owned(),
                packets_per_second: 56_789.0,
                bytes_per_second: 3_407_340.0,
            })
            .into(),
            sources: vec![row("192.0.2.1", None), row("2001:db8::/64", Some(ban))],
        };
        let choice = Choice {
            marked: Some("192.0.2.1".parse().unwrap()),
            paused: true,
            ..Choice::default()
        };
        let mut terminal = Terminal::new(TestBackend::new(110, 14)).unwrap();
        let drawn = terminal.draw(|frame| draw(frame, &picture, None, &choice, &now));
        drawn.unwrap();
        let shown = terminal.backend().to_string();
        for text in [
            "rlctl top 14:50:00  by level  PAUSED",
            "drop     limited                     56.8k        3.4MB",
            "drop     challenged                  56.8k        3.4MB",
            "pass     verified                    56.8k        3.4MB",
            "192.0.2.1     default            1.2k  100%      56.8k          7",
            "2001:db8::/64 default            1.2k  100%      56.8k          7 10m",
            "10 packets",
            "udp to 9999",
            "q quit   s sort   / filter   p pause   arrows select   b ban",
        ] {
            assert!(shown.contains(text), "`{text}` is not in\n{shown}");
        }
    }
}
