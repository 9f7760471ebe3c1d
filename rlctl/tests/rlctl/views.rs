//! The verbs that show something, with answers as a daemon gives them.

mod check;
mod list;
mod status;
mod traffic;

use std::time::Duration;

use ratelimit_core::{
    api::{
        AppliesTo, Ban, ClockStatus, CoarseError, DatabaseStatus, EntryCounter, HistoryStatus,
        InterfaceStatus, KernelClock, LimitState, MapStatus, Origin, PolicyView, Status,
    },
    config::ClockWish,
    limit::{Algorithm, LimitSpec, LimitUnit},
};

use crate::check_view;

pub fn status(past: jiff::Timestamp) -> Status {
    let interface = |name: &str, mode: Option<&str>| InterfaceStatus {
        name: name.to_owned(),
        attached: mode.is_some(),
        mode_wanted: "auto".to_owned(),
        mode: mode.map(str::to_owned),
        renamed_to: None,
        why: mode
            .is_none()
            .then(|| "there is no such interface".to_owned()),
        remark: None,
        next: None,
        policy: None,
        node: false,
        observe: false,
    };
    let map = |name: &str, entries, capacity, memory_bytes| MapStatus {
        name: name.to_owned(),
        entries,
        capacity,
        memory_bytes,
    };
    Status {
        limited: 0,
        version: "1.0.0".to_owned(),
        pid: 812,
        started: past,
        config_files: vec!["/etc/ratelimit/config.toml".to_owned()],
        config_applied: past,
        config_error: None,
        observe: false,
        clock: clock(),
        interfaces: vec![interface("eth0", Some("generic")), interface("eth1", None)],
        maps: vec![
            map("BANS_IPV4", Some(512), 1024, 1_572_864),
            map("STATES", None, 1_000_000, 640),
        ],
        new_sources: None,
        challenge: None,
        bans: 1,
        automatic_bans: 0,
        detection: None,
        attacks: vec![],
        allows: 3,
        lists: Vec::new(),
        policies: 2,
        classes: Vec::new(),
        aggregates: Vec::new(),
        tunnels: Vec::new(),
        destinations: 0,
        node: false,
        crowdsec: None,
        cluster: None,
        protected: 0,
        pass_all: None,
        attempt: None,
        database: DatabaseStatus::default(),
        history: HistoryStatus::default(),
        troubles: Vec::new(),
    }
}

fn clock() -> ClockStatus {
    let window = Duration::from_secs(1);
    let limit = LimitSpec::new(1000, LimitUnit::Packets, window, Algorithm::FixedWindow);
    ClockStatus {
        clock: KernelClock::Coarse,
        wish: ClockWish::Auto,
        tick_seconds: 0.004,
        suits: true,
        decides: Some(CoarseError {
            policy: "default".to_owned(),
            limit: limit.unwrap(),
            error: 0.004,
        }),
    }
}

fn ban(prefix: &str, since: jiff::Timestamp) -> Ban {
    Ban {
        prefix: prefix.parse().unwrap(),
        until: None,
        since,
        reason: Some("port scan".into()),
        author: "alice".into(),
        origin: Origin::Manual,
        folded: None,
        counter: EntryCounter::default(),
    }
}

fn counter(packets: u64, bytes: u64) -> EntryCounter {
    EntryCounter {
        packets: Some(packets),
        bytes: Some(bytes),
    }
}

fn policies() -> [PolicyView; 2] {
    let default = PolicyView {
        name: "default".to_owned(),
        prefixes: Vec::new(),
        selection: None,
        limits: limits().iter().map(|state| state.limit.clone()).collect(),
        drops: false,
        connections: None,
        observe: false,
        ban: None,
        applies_to: AppliesTo::Source,
        runtime: None,
        origin: Origin::Config,
        counter: EntryCounter::default(),
    };
    let partner = PolicyView {
        name: "partner".to_owned(),
        prefixes: vec![
            "203.0.113.0/24".parse().unwrap(),
            "2001:db8::/48".parse().unwrap(),
        ],
        selection: None,
        limits: Vec::new(),
        drops: false,
        connections: None,
        observe: true,
        ban: None,
        applies_to: AppliesTo::Source,
        runtime: None,
        origin: Origin::Config,
        counter: EntryCounter::default(),
    };
    [default, partner]
}

fn limits() -> Vec<LimitState> {
    let state = |amount, unit, used| LimitState {
        limit: LimitSpec::new(amount, unit, Duration::from_secs(1), Algorithm::FixedWindow)
            .unwrap(),
        used,
        room_in_seconds: 0.0,
        clears_in_seconds: 0.4,
        share: None,
    };
    vec![
        state(1000, LimitUnit::Packets, 37),
        state(50_000_000, LimitUnit::Bytes, 0),
    ]
}
