//! Scans what is kept of sources, beside the controller.

use std::{
    pin::Pin,
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
};

use ratelimit_core::api::TopSource;
use tokio::{runtime::Runtime, time::timeout};

use super::*;
use crate::control::{
    Handle,
    commands::{Ban, SetLimits},
};

/// After so long a test fails that would wait for ever.
const PATIENCE: Duration = Duration::from_secs(30);

/// A query that scans the tables; its result is discarded.
type Scan = fn(Handle) -> Pin<Box<dyn Future<Output = ()> + Send>>;

const TOP: Scan = |handle| {
    Box::pin(async move {
        queries::top(&handle, 10, Vec::new())
            .await
            .unwrap()
            .unwrap();
    })
};
const SCRAPE: Scan = |handle| {
    Box::pin(async move {
        queries::scrape(&handle).await.unwrap().unwrap();
    })
};
const STATUS: Scan = |handle| {
    Box::pin(async move {
        queries::status(&handle, false).await.unwrap();
    })
};

#[test]
fn a_ban_is_answered_while_sources_are_scanned() {
    for scan in [TOP, SCRAPE] {
        check(&Lab::new(config()), scan);
    }
}

#[test]
fn a_ban_is_answered_while_a_compact_table_is_scanned() {
    for scan in [TOP, SCRAPE, STATUS] {
        let mut config = config();
        config.source.store = StateStore::Compact;
        let lab = Lab::with_sets(config, Some(1 << 16));
        let policy = lab.policy_of("192.0.2.7");
        let limit = policy.limit(0).unwrap();
        let row = ("192.0.2.7".parse().unwrap(), 1);
        let put = lab.tables().sources.put_slots(limit, IpFamily::V4, &[row]);
        put.unwrap();
        check(&lab, scan);
    }
}

/// Bans while `scan` waits in the middle of the tables.
fn check(lab: &Lab, scan: Scan) {
    let (reached, open) = lab.set_gate();
    lab.serve(|handle, runtime| {
        let scan = runtime.spawn(scan(handle.clone()));
        reached.recv_timeout(PATIENCE).unwrap();
        let request = BanRequest {
            prefixes: vec![prefix("192.0.2.1")],
            ..BanRequest::default()
        };
        let author = "root".into();
        let ban = handle.call(Ban(request, author));
        let answer = runtime.block_on(async { timeout(PATIENCE, ban).await });
        assert_eq!(answer.unwrap().unwrap().unwrap().added, 1);
        assert!(lab.is_banned("192.0.2.1") && !scan.is_finished());
        open.send(()).unwrap();
        runtime.block_on(scan).unwrap();
    });
}

#[test]
fn what_was_read_of_a_policy_that_changed_meanwhile_is_not_told() {
    let mut config = config();
    config.default_policy.limits = vec![slow(10, Algorithm::FixedWindow)];
    config.policies.get_mut("partner").unwrap().limits = config.default_policy.limits.clone();
    let lab = Lab::new(config);
    lab.put_record("192.0.2.1", "default");
    lab.put_record("203.0.113.1", "partner");
    assert_eq!(lab.top(9).len(), 2);
    let (reached, open) = lab.set_gate();
    lab.serve(|handle, runtime| {
        let own = handle.clone();
        let top = runtime.spawn(async move { queries::top(&own, 9, Vec::new()).await });
        reached.recv_timeout(PATIENCE).unwrap();
        let request = LimitRequest {
            limits: vec![limit(77)],
            ..LimitRequest::default()
        };
        let change = handle.call(SetLimits(request, "root".into()));
        runtime.block_on(change).unwrap().unwrap();
        open.send(()).unwrap();
        let top = runtime.block_on(top).unwrap().unwrap().unwrap();
        let policies: Vec<_> = top.iter().map(|row| row.policy.as_str()).collect();
        assert_eq!(policies, ["partner"]);
    });
}

#[test]
fn nothing_is_scanned_for_who_hung_up() {
    let lab = Lab::new(config());
    let has_scanned = Arc::new(AtomicBool::new(false));
    lab.serve(|handle, runtime| {
        let (go, wait) = mpsc::channel::<()>();
        let own = handle.clone();
        let first = runtime.spawn(async move { own.scan(move |_| wait.recv().unwrap()).await });
        let (own, note) = (handle.clone(), Arc::clone(&has_scanned));
        let second =
            runtime.spawn(async move { own.scan(move |_| note.store(true, Relaxed)).await });
        second.abort();
        assert!(runtime.block_on(second).unwrap_err().is_cancelled());
        go.send(()).unwrap();
        runtime.block_on(first).unwrap().unwrap();
        runtime.block_on(handle.scan(|_| ())).unwrap();
    });
    assert!(!has_scanned.load(Relaxed));
}

#[test]
fn a_long_list_of_bans_is_told_whole() {
    let mut lab = Lab::new(config());
    let address = |number: u32| std::net::Ipv4Addr::from_bits(0x0b00_0000 + number).to_string();
    let addresses: Vec<_> = (0..10_000).map(address).collect();
    let addresses: Vec<_> = addresses.iter().map(String::as_str).collect();
    lab.ban(&addresses, None).unwrap();
    let reported = lab.serve(|handle, runtime| runtime.block_on(queries::bans_in_parts(handle)));
    assert_eq!(reported.unwrap(), lab.listed_bans());
}

impl Lab {
    /// Makes the next scan pause in the middle, and returns channels that report the pause and end
    /// it.
    fn set_gate(&self) -> (mpsc::Receiver<()>, mpsc::Sender<()>) {
        let ((reached, is_reached), (go, open)) = (mpsc::channel(), mpsc::channel());
        let map = if self.tables().sources.is_compact() {
            "COMPACT_V4"
        } else {
            "SOURCES_V4"
        };
        let wait = move || {
            reached.send(()).unwrap();
            let _ = open.recv();
        };
        self.switches().before_read = Some((map, Box::new(wait)));
        (is_reached, go)
    }

    /// Runs `work` with the handle of another controller over the same tables.
    fn serve<T>(&self, work: impl FnOnce(&Handle, &Runtime) -> T) -> T {
        let controller = controller(&self.config, &self.memory, &self.directory, &self.protected);
        let (handle, thread) = controller.spawn().unwrap();
        let answer = work(&handle, &Runtime::new().unwrap());
        drop(handle);
        thread.join().unwrap();
        answer
    }

    /// The busiest sources.
    pub(super) fn top(&self, count: usize) -> Vec<TopSource> {
        self.serve(|handle, runtime| {
            let top = runtime.block_on(queries::top(handle, count, Vec::new()));
            top.unwrap().unwrap()
        })
    }

    /// A source that has sent a packet under a policy.
    fn put_record(&self, source: &str, policy: &str) {
        let named = self.state.compiled.policies.get(policy).unwrap();
        let limit = named.policy.limits().next().unwrap().algorithm();
        let mut record = Record::default();
        record.words[0] = limit.step(0, clock::now(), 1).unwrap();
        put_record(self, source.parse().unwrap(), named.policy.scope(), record);
    }
}
