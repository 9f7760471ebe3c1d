//! What the controller tells: nothing here changes anything.

use std::{
    collections::HashMap,
    net::IpAddr,
    time::{Duration, Instant as StdInstant},
};

use ratelimit_common::{
    DropReason, Instant, PassReason, Record, Strikes, Verdict, algorithm::Algorithm,
};

use super::{
    controller::{Controller, Reloads},
    policies::{DEFAULT, Named},
    preview,
    store::{BanRow, FOREVER},
};
use crate::{
    api::{
        Allow, Ban, Check, InterfaceStatus, LimitState, MapStatus, Origin, PolicyView, Refused,
        StatsRow, Status, TopSource,
    },
    clock,
    config::Mode,
    datapath::{CounterRow, DatapathError, InterfaceState, IpFamily, Totals},
    limit::{FRAME_BYTES, LimitUnit},
    prefix::Prefix,
};

/// How long a count of the sources is good for: it walks their maps.
const FILL_LASTS: Duration = Duration::from_secs(10);

/// How many sources have state, as counted a moment ago.
#[derive(Debug, Default)]
pub struct Fill {
    counted: Option<StdInstant>,
    sources: [u64; 2],
}

/// What the metrics are made of.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The daemon and its interfaces.
    pub status: Status,
    /// The counters, with the names of their interfaces.
    pub counters: Vec<(String, CounterRow)>,
    /// Sums over the CPUs.
    pub totals: Totals,
    /// Sources that have state, IPv4 and IPv6.
    pub sources: [u64; 2],
    /// How reloads went.
    pub reloads: Reloads,
}

impl Controller {
    /// The state of the daemon and its datapath.
    #[must_use]
    pub fn status(&self) -> Status {
        let config = &self.intent.config;
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            started: self.started,
            config_files: config
                .files
                .iter()
                .map(|file| file.display().to_string())
                .collect(),
            config_applied: self.reloads.applied,
            config_error: self.reloads.error.clone(),
            observe: config.observe,
            interfaces: self.interfaces(),
            maps: self.maps(),
            bans: self.intent.bans().len(),
            allows: self.allows().len(),
            policies: self.policies.len(),
        }
    }

    /// The bans, in the order of their prefixes.
    #[must_use]
    pub fn bans(&self) -> Vec<Ban> {
        self.intent
            .bans()
            .iter()
            .map(|(prefix, row)| ban(*prefix, row))
            .collect()
    }

    /// The allow list: that of the configuration, and what was added by hand.
    #[must_use]
    pub fn allows(&self) -> Vec<Allow> {
        let by_hand = self.intent.allows().iter().map(|(prefix, row)| Allow {
            prefix: *prefix,
            since: Some(row.since),
            reason: row.reason.clone(),
            author: Some(row.author.clone()),
            origin: Origin::Manual,
        });
        let configured = self
            .intent
            .config
            .allow
            .iter()
            .filter(|prefix| !self.intent.allows().contains_key(prefix));
        let configured = configured.map(|prefix| Allow {
            prefix: *prefix,
            since: None,
            reason: None,
            author: None,
            origin: Origin::Config,
        });
        let mut allows: Vec<Allow> = by_hand.chain(configured).collect();
        allows.sort_by_key(|allow| allow.prefix);
        allows
    }

    /// The policies, the default one first.
    #[must_use]
    pub fn limits(&self) -> Vec<PolicyView> {
        let by_hand = |name: &str| {
            let target = if name == DEFAULT {
                Some(None)
            } else {
                name.parse().ok().map(Some)
            };
            target.is_some_and(|target| self.intent.limits().contains_key(&target))
        };
        let wanted = self.intent.policies();
        wanted
            .into_iter()
            .map(|policy| {
                let manual = by_hand(&policy.name);
                let configured = self.intent.config.policies.get(&policy.name);
                let own = policy.name.parse().ok().filter(|_| manual);
                PolicyView {
                    prefixes: configured.map_or_else(
                        || own.into_iter().collect(),
                        |policy| policy.sources.clone(),
                    ),
                    limits: policy.limits.to_vec(),
                    observe: policy.observe,
                    origin: if manual {
                        Origin::Manual
                    } else {
                        Origin::Config
                    },
                    name: policy.name,
                }
            })
            .collect()
    }

    /// What would happen to a packet of `address`.
    ///
    /// # Errors
    ///
    /// When the kernel's tables cannot be read.
    pub fn check(&self, address: IpAddr) -> Result<Check, Refused> {
        let now = clock::now();
        let source = self.source_of(address);
        let verdict = preview::preview(
            address,
            now,
            &self.rules,
            &self.enforcer,
            &self.intent.config.source,
        );
        let matched = self.rules.longest_match(address);
        let ban = self.ban_of(address).filter(|_| verdict_is_ban(verdict));
        let named = matched
            .and_then(|(_, entry)| entry.policy())
            .and_then(|index| self.policies.at(index));
        let named = named.or_else(|| Some((DEFAULT, self.policies.get(DEFAULT)?)));
        let strikes = self
            .enforcer
            .datapath()
            .strikes(source.address())
            .map_err(unreadable)?;
        let limits = match named {
            Some((_, named)) => self.limit_states(source, named, now).map_err(unreadable)?,
            None => Vec::new(),
        };
        Ok(Check {
            address,
            source,
            action: verdict.action().to_owned(),
            reason: verdict.reason().to_owned(),
            rule: self.deciding_rule(address, verdict, ban.as_ref()),
            until: ban.as_ref().and_then(|ban| ban.until),
            ban,
            policy: named.map_or(DEFAULT, |(name, _)| name).to_owned(),
            limits,
            refused_packets: strikes.map_or(0, |strikes| strikes.packets),
            refused_last: strikes
                .map(|strikes| clock::to_wall(Instant::from_nanos(strikes.last_ns))),
        })
    }

    /// The busiest sources: those whose limits are fullest, then those that were refused most.
    ///
    /// # Errors
    ///
    /// When the kernel's tables cannot be read.
    pub fn top(&self, count: usize) -> Result<Vec<TopSource>, Refused> {
        let now = clock::now();
        let mut struck: HashMap<IpAddr, Strikes> = HashMap::new();
        let by_scope: HashMap<u32, (&str, &Named)> = self
            .policies
            .iter()
            .map(|(name, named)| (named.policy.scope(), (name, named)))
            .collect();
        let datapath = self.enforcer.datapath();
        datapath
            .for_each_struck(&mut |source, strikes| {
                struck.insert(source, strikes);
            })
            .map_err(unreadable)?;
        let mut busy: Vec<Busy<'_>> = Vec::new();
        datapath
            .for_each_source(&mut |row| {
                let Some((name, named)) = by_scope.get(&row.scope) else {
                    return;
                };
                let Some((fill, limit)) = fullest(named, &row.record, now) else {
                    return;
                };
                let refused = struck.get(&row.source);
                busy.push(Busy {
                    fill,
                    source: row.source,
                    policy: name,
                    named,
                    limit,
                    word: row.record.words[limit],
                    refused_packets: refused.map_or(0, |strikes| strikes.packets),
                });
                if busy.len() >= 2 * count.max(1024) {
                    keep_busiest(&mut busy, count);
                }
            })
            .map_err(unreadable)?;
        keep_busiest(&mut busy, count);
        let told = busy.into_iter().map(|busy| TopSource {
            source: self.source_of(busy.source),
            policy: busy.policy.to_owned(),
            limit: Some(state(busy.named, busy.limit, busy.word, now)),
            refused_packets: busy.refused_packets,
        });
        Ok(told.collect())
    }

    /// The counters, a row for each verdict that was ever given.
    ///
    /// # Errors
    ///
    /// When the kernel's tables cannot be read.
    pub fn stats(&self) -> Result<Vec<StatsRow>, Refused> {
        let rows = self.counters().map_err(unreadable)?;
        Ok(rows
            .into_iter()
            .map(|(interface, row)| StatsRow {
                interface,
                family: row.family.label().to_owned(),
                action: row.verdict.action().to_owned(),
                reason: row.verdict.reason().to_owned(),
                packets: row.count.packets,
                bytes: row.count.bytes,
            })
            .collect())
    }

    /// What the metrics are made of.
    ///
    /// # Errors
    ///
    /// When the kernel's tables cannot be read.
    pub fn snapshot(&mut self) -> Result<Snapshot, Refused> {
        self.count_sources().map_err(unreadable)?;
        Ok(Snapshot {
            status: self.status(),
            counters: self.counters().map_err(unreadable)?,
            totals: self.enforcer.datapath().totals().map_err(unreadable)?,
            sources: self.fill.sources,
            reloads: self.reloads.clone(),
        })
    }

    fn interfaces(&self) -> Vec<InterfaceStatus> {
        let status =
            |(interface, _, state): (crate::config::Interface, u32, Option<InterfaceState>)| {
                let mode = state
                    .and_then(|state| state.program)
                    .map(|(mode, _)| mode.label().to_owned());
                InterfaceStatus {
                    name: interface.name,
                    attached: mode.is_some(),
                    mode_wanted: mode_label(interface.mode).to_owned(),
                    mode,
                }
            };
        self.enforcer
            .datapath()
            .attached()
            .into_iter()
            .map(status)
            .collect()
    }

    fn maps(&self) -> Vec<MapStatus> {
        let (v4, v6) = (
            self.enforcer.count_entries(IpFamily::V4),
            self.enforcer.count_entries(IpFamily::V6),
        );
        let entries = |name: &str| match name {
            "ADDRESSES_V4" => Some(v4.0),
            "ADDRESSES_V6" => Some(v6.0),
            "PREFIXES_V4" => Some(v4.1),
            "PREFIXES_V6" => Some(v6.1),
            "POLICIES" => Some(self.enforcer.policies().len() as u64),
            _ => None,
        };
        let maps = self.enforcer.datapath().maps().iter().cloned();
        maps.map(|map| MapStatus {
            entries: entries(&map.name),
            ..map
        })
        .collect()
    }

    fn counters(&self) -> Result<Vec<(String, CounterRow)>, DatapathError> {
        let attached = self.enforcer.datapath().attached();
        let name = |slot: u32| {
            let found = attached.iter().find(|(_, own, _)| *own == slot);
            found.map_or_else(String::new, |(interface, ..)| interface.name.clone())
        };
        let rows = self.enforcer.datapath().counters()?;
        Ok(rows
            .into_iter()
            .map(|row| (name(row.interface), row))
            .collect())
    }

    fn count_sources(&mut self) -> Result<(), DatapathError> {
        if self
            .fill
            .counted
            .is_some_and(|counted| counted.elapsed() < FILL_LASTS)
        {
            return Ok(());
        }
        let mut sources = [0; 2];
        self.enforcer
            .datapath()
            .for_each_source(&mut |row| sources[usize::from(row.source.is_ipv6())] += 1)?;
        self.fill = Fill {
            counted: Some(StdInstant::now()),
            sources,
        };
        Ok(())
    }

    /// The source that an address belongs to.
    fn source_of(&self, address: IpAddr) -> Prefix {
        let source = &self.intent.config.source;
        let length = if address.is_ipv4() {
            source.ipv4_prefix
        } else {
            source.ipv6_prefix
        };
        Prefix::around(address, length).unwrap_or_else(|| address.into())
    }

    /// The ban that holds for an address: of those of the prefixes around it the one that ends last.
    fn ban_of(&self, address: IpAddr) -> Option<Ban> {
        let bans = self.intent.bans();
        let around =
            (0..=Prefix::from(address).len()).filter_map(|length| Prefix::around(address, length));
        let rows = around.filter_map(|prefix| Some((prefix, bans.get(&prefix)?)));
        rows.max_by_key(|(_, row)| row.until)
            .map(|(prefix, row)| ban(prefix, row))
    }

    /// The prefix that the verdict comes from: of the ban, of the allow, or of the policy.
    fn deciding_rule(
        &self,
        address: IpAddr,
        verdict: Verdict,
        ban: Option<&Ban>,
    ) -> Option<Prefix> {
        let around = (0..=Prefix::from(address).len())
            .rev()
            .filter_map(|length| Prefix::around(address, length));
        let mut around = around;
        match verdict {
            Verdict::Pass(PassReason::Allowed) => {
                around.find(|prefix| self.intent.is_allowed(*prefix))
            }
            Verdict::Drop(DropReason::Banned) | Verdict::Observe(DropReason::Banned) => {
                ban.map(|ban| ban.prefix)
            }
            _ => around.find(|prefix| self.intent.policy_name(*prefix).is_some()),
        }
    }

    fn limit_states(
        &self,
        source: Prefix,
        named: &Named,
        now: Instant,
    ) -> Result<Vec<LimitState>, DatapathError> {
        let record = self
            .enforcer
            .datapath()
            .record(source.address(), named.policy.scope())?;
        Ok(states(named, &record.unwrap_or_default(), now))
    }
}

/// A source under limits, while it is not yet known whether it is among the busiest.
struct Busy<'a> {
    fill: f64,
    source: IpAddr,
    policy: &'a str,
    named: &'a Named,
    /// The index of the limit with the least room.
    limit: usize,
    word: u64,
    refused_packets: u64,
}

/// The share in use of the fullest limit that is in use at all, and its index.
fn fullest(named: &Named, record: &Record, now: Instant) -> Option<(f64, usize)> {
    let fills = named.policy.limits().zip(&record.words);
    fills
        .map(|(limit, word)| fill(limit.algorithm(), *word, now))
        .zip(0..)
        .filter(|(fill, _)| *fill > 0.0)
        .max_by(|(left, _), (right, _)| left.total_cmp(right))
}

#[expect(clippy::cast_precision_loss, reason = "a share for sorting")]
fn fill(algorithm: Algorithm, word: u64, now: Instant) -> f64 {
    algorithm.used(word, now) as f64 / algorithm.capacity() as f64
}

/// The state of each limit of a policy.
fn states(named: &Named, record: &Record, now: Instant) -> Vec<LimitState> {
    let words = record.words.iter().enumerate().take(named.limits.len());
    words
        .map(|(index, word)| state(named, index, *word, now))
        .collect()
}

/// The state of the limit at `index`, whose word is `word`.
fn state(named: &Named, index: usize, word: u64, now: Instant) -> LimitState {
    let spec = named.limits[index];
    let algorithm = spec.compile().algorithm();
    let packet = match spec.unit() {
        LimitUnit::Packets => 1,
        LimitUnit::Bytes => FRAME_BYTES.min(spec.capacity()),
    };
    let seconds = |nanos| Duration::from_nanos(nanos).as_secs_f64();
    LimitState {
        limit: spec,
        used: algorithm.used(word, now),
        room_in_seconds: seconds(algorithm.room_in_ns(word, now, packet)),
        clears_in_seconds: seconds(algorithm.clears_in_ns(word, now)),
    }
}

fn keep_busiest(busy: &mut Vec<Busy<'_>>, count: usize) {
    busy.sort_by(|left, right| {
        right
            .fill
            .total_cmp(&left.fill)
            .then(right.refused_packets.cmp(&left.refused_packets))
    });
    busy.truncate(count);
}

fn ban(prefix: Prefix, row: &BanRow) -> Ban {
    Ban {
        prefix,
        until: (row.until != FOREVER).then(|| clock::to_wall(row.until)),
        since: row.since,
        reason: row.reason.clone(),
        author: row.author.clone(),
        origin: Origin::Manual,
    }
}

fn verdict_is_ban(verdict: Verdict) -> bool {
    matches!(
        verdict,
        Verdict::Drop(DropReason::Banned) | Verdict::Observe(DropReason::Banned)
    )
}

fn mode_label(mode: Mode) -> &'static str {
    match mode {
        Mode::Auto => "auto",
        Mode::Native => "native",
        Mode::Generic => "generic",
    }
}

fn unreadable(error: DatapathError) -> Refused {
    anyhow::Error::from(error).into()
}
