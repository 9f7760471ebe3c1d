//! `rlctl ban`: drops all packets of prefixes for a time.

use clap::Args;
use jiff::Zoned;
use ratelimit_core::{
    api::{BanRequest, Changed, ProgramBanRequest},
    prefix::Prefix,
};

use crate::{
    chunks,
    client::Client,
    failure::Failure,
    lifetime::Lifetime,
    phrase,
    prefixes::{self, Named, PrefixesArguments},
    report::Report,
};

/// `ban PREFIX... [--for TIME] [--reason TEXT] [--force]`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  rlctl ban 203.0.113.7 --for 10m --reason scanner
  rlctl ban 2001:db8:bad::/48 --forever
  rlctl ban 2001:db8:bad::7/64 --network
  grep -o '^[0-9.]*' access.log | sort -u | rlctl ban - --for 1d
  rlctl ban 203.0.113.7 --for 10m --program fail2ban/sshd

An IPv6 address without a prefix length means its source prefix, a /64 unless [source] ipv6_prefix \
differs. Use 2001:db8::7/128 to ban only that address.")]
pub struct BanArguments {
    #[command(flatten)]
    pub prefixes: PrefixesArguments,
    /// Lifetime: 90 (seconds), 10m, 1h30m, 1d [default: `[ban] for` of the configuration, 4h]
    #[arg(long = "for", value_name = "TIME", allow_negative_numbers = true)]
    pub lifetime: Option<Lifetime>,
    /// Ban permanently
    #[arg(long, conflicts_with = "lifetime")]
    pub forever: bool,
    /// Reason shown with the ban
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Also ban protected addresses (`rlctl list protected`) and prefixes wider than /8 (IPv6: /19)
    #[arg(long)]
    pub force: bool,
    /// Ban on behalf of a program, whose bans are separate from manual ones
    #[arg(long, value_name = "NAME", conflicts_with = "force")]
    pub program: Option<String>,
}

/// Bans that are named one by one in a note; the others are counted.
const NAMED_MAX: usize = 10;

/// Bans the prefixes.
pub fn run(arguments: &BanArguments, client: &Client, now: &Zoned) -> Result<Report, Failure> {
    let named = prefixes::read_named(
        &arguments.prefixes.prefixes,
        arguments.prefixes.network.host_bits(),
    )?;
    let lifetime = if arguments.forever {
        Some(Lifetime::Forever)
    } else {
        arguments.lifetime
    };
    let seconds = lifetime.and_then(Lifetime::seconds);
    let forever = lifetime == Some(Lifetime::Forever);
    let answer = chunks::send(&named, |named| {
        let (prefixes, sources) = Named::split(&named);
        let reason = arguments.reason.clone();
        if let Some(program) = &arguments.program {
            let request = ProgramBanRequest {
                program: program.clone(),
                prefixes,
                sources,
                seconds,
                forever,
                reason,
            };
            return client.post("/v1/bans/program", &request);
        }
        let request = BanRequest {
            prefixes,
            sources,
            seconds,
            forever,
            reason,
            force: arguments.force,
        };
        client.post("/v1/bans", &request)
    })?;
    let whom = whom(&named, &answer.value.sources);
    let text = sentence(&whom, lifetime, named.len(), &answer.value, now);
    let notes = notes(&answer.value, now);
    Ok(Report::new(answer, text)
        .notes(chunks::note(&named))
        .notes(notes))
}

/// `2001:db8::/64, the source of 2001:db8::7`, or the number of several.
fn whom(named: &[Named], sources: &[Prefix]) -> String {
    match (named, sources) {
        ([named], [source]) if *source != named.prefix => {
            format!("{source}, the source of {},", named.prefix)
        }
        _ => {
            let prefixes: Vec<Prefix> = named.iter().map(|named| named.prefix).collect();
            phrase::whom(&prefixes)
        }
    }
}

/// `banned 1.2.3.4 for 10m (until 14:32:07)`
fn sentence(
    whom: &str,
    lifetime: Option<Lifetime>,
    named: usize,
    changed: &Changed,
    now: &Zoned,
) -> String {
    let kept = changed.longer.iter().filter(|ban| ban.kept).count();
    if kept == named {
        return format!(
            "{} already banned for longer",
            if named == 1 {
                format!("{whom} is")
            } else {
                format!("all {named} prefixes are")
            }
        );
    }
    let lifetime = match lifetime {
        Some(lifetime) => phrase::lifetime(lifetime, changed.until, now),
        None => phrase::until(changed.until, now),
    };
    format!("banned {whom} {lifetime}{}", novelty(named - kept, changed))
}

/// Returns notes about the bans.
fn notes(changed: &Changed, now: &Zoned) -> Vec<String> {
    let longer = changed.longer.iter().take(NAMED_MAX).map(|ban| {
        let until = phrase::until(ban.until, now);
        if ban.kept {
            format!(
                "kept the ban of {} {until}: only `--for TIME` shortens a ban",
                ban.prefix
            )
        } else {
            format!("the previous ban of {} lasted longer, {until}", ban.prefix)
        }
    });
    let mut notes: Vec<String> = longer.collect();
    if changed.longer.len() > NAMED_MAX {
        let others = changed.longer.len() - NAMED_MAX;
        notes.push(format!("{others} more bans lasted longer"));
    }
    notes.extend(phrase::unfolded(changed));
    notes.extend(phrase::without_effect(changed));
    if changed.waits_for_store {
        notes.push(
            "the cluster store is unreachable; other nodes get the change when it returns"
                .to_owned(),
        );
    }
    notes
}

/// Describes entries that existed before.
pub fn novelty(named: usize, changed: &Changed) -> String {
    match (named, changed.added, changed.updated) {
        (named, added, _) if added == named => String::new(),
        (1, _, 0) => ", no change".to_owned(),
        (1, ..) => ", replacing an earlier entry".to_owned(),
        (_, added, updated) => format!(
            ": {added} new, {updated} changed, {} unchanged",
            named.saturating_sub(added + updated)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ban_is_reported_with_its_end() {
        check(
            "1.2.3.4",
            1,
            (1, 0),
            "banned 1.2.3.4 for 10m (until 14:32:07)",
        );
        check(
            "12 prefixes",
            12,
            (12, 0),
            "banned 12 prefixes for 10m (until 14:32:07)",
        );
    }

    #[test]
    fn what_was_banned_before_is_reported() {
        check(
            "1.2.3.4",
            1,
            (0, 1),
            "banned 1.2.3.4 for 10m (until 14:32:07), replacing an earlier entry",
        );
        check(
            "1.2.3.4",
            1,
            (0, 0),
            "banned 1.2.3.4 for 10m (until 14:32:07), no change",
        );
        check(
            "12 prefixes",
            12,
            (7, 4),
            "banned 12 prefixes for 10m (until 14:32:07): 7 new, 4 changed, 1 unchanged",
        );
    }

    fn check(whom: &str, named: usize, (added, updated): (usize, usize), expected: &str) {
        let changed = Changed {
            added,
            updated,
            until: Some("2026-03-02T14:32:07Z".parse().unwrap()),
            ..Changed::default()
        };
        let now = "2026-03-02T14:22:07Z[UTC]".parse().unwrap();
        let lifetime = "10m".parse().ok();
        assert_eq!(sentence(whom, lifetime, named, &changed, &now), expected);
    }
}
