//! Requests to the loader and its answers, as bytes: JSON of few types, without unknown fields.
//!
//! A request is checked before it is executed, whoever sent it: a compromised daemon gains no more
//! than the purpose of the loader.

use std::{
    collections::BTreeMap,
    path::{Component, Path, PathBuf},
};

use anyhow::{Context, ensure};
use ratelimit_common::{layout::INTERFACES_MAX, limit::LIMITS_MAX};
use serde::{Deserialize, Serialize};

use super::{InterfacePlan, MapPlan};

/// Bytes of the longest path of pins.
const PATH_MAX: usize = 512;
/// Bytes of the longest name of an interface (`IFNAMSIZ`, with its end).
const NAME_MAX: usize = 15;
/// CPUs of the largest machine that a kernel is built for.
const CPUS_MAX: u32 = 1 << 13;
/// Packets of the longest sliding log, and more.
const LOG_TIMES_MAX: u32 = 1 << 24;

/// A request.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// [`Loader::open`](super::Loader::open).
    Open(PathBuf),
    /// Has the loader hold the lock of the daemon, whose descriptor comes along.
    Hold,
    /// [`Loader::open_maps`](super::Loader::open_maps).
    OpenMaps(MapPlan),
    /// [`Loader::rename`](super::Loader::rename).
    Rename(BTreeMap<String, String>),
    /// [`Loader::prepare`](super::Loader::prepare).
    Prepare(InterfacePlan),
    /// [`Loader::attach`](super::Loader::attach).
    Attach(InterfacePlan),
    /// [`Loader::keep_pinned`](super::Loader::keep_pinned).
    KeepPinned,
    /// [`Loader::place_at_tcx`](super::Loader::place_at_tcx).
    PlaceAtTcx(u32, u32),
    /// [`Loader::stale_next`](super::Loader::stale_next).
    StaleNext,
    /// [`Loader::forget_replaced`](super::Loader::forget_replaced).
    ForgetReplaced,
    /// [`Loader::detach`](super::Loader::detach).
    Detach(String),
    /// [`Loader::detach_all`](super::Loader::detach_all).
    DetachAll,
}

/// The result of the loader's method, with descriptors in addition, or an error.
pub type Answer = Result<serde_json::Value, String>;

impl Request {
    /// The request that `bytes` are.
    pub fn read(bytes: &[u8]) -> anyhow::Result<Self> {
        let request: Self = serde_json::from_slice(bytes).context("not a request")?;
        request.check()?;
        Ok(request)
    }

    /// Whether it creates maps.
    pub fn makes_maps(&self) -> bool {
        matches!(self, Self::Open(_) | Self::OpenMaps(_))
    }

    fn check(&self) -> anyhow::Result<()> {
        match self {
            Self::Open(path) => check_path(path),
            Self::OpenMaps(plan) => check_maps(plan),
            Self::Prepare(plan) | Self::Attach(plan) => {
                ensure!(plan.slot < INTERFACES_MAX, "no slot {}", plan.slot);
                plan.next.as_deref().map_or(Ok(()), check_path)?;
                check_name(&plan.name)
            }
            Self::Rename(names) => names
                .iter()
                .try_for_each(|(from, to)| check_name(from).and_then(|()| check_name(to))),
            Self::Detach(name) => check_name(name),
            Self::Hold
            | Self::KeepPinned
            | Self::PlaceAtTcx(_, _)
            | Self::StaleNext
            | Self::ForgetReplaced
            | Self::DetachAll => Ok(()),
        }
    }
}

fn check_path(path: &Path) -> anyhow::Result<()> {
    let mut components = path.components();
    let is_plain = components.next() == Some(Component::RootDir)
        && components.all(|part| matches!(part, Component::Normal(_)))
        && path.parent().is_some();
    ensure!(
        is_plain && path.as_os_str().len() <= PATH_MAX,
        "{:.512} is not an absolute path without `..`",
        path.display()
    );
    Ok(())
}

/// The kernel's rule (`dev_valid_name`).
fn check_name(name: &str) -> anyhow::Result<()> {
    let is_wrong =
        |byte: u8| byte == b'/' || byte == b':' || byte == 0 || byte.is_ascii_whitespace();
    ensure!(
        (1..=NAME_MAX).contains(&name.len())
            && name != "."
            && name != ".."
            && !name.bytes().any(is_wrong),
        "`{:.64}` is not an interface name",
        name.escape_debug().to_string()
    );
    Ok(())
}

fn check_maps(plan: &MapPlan) -> anyhow::Result<()> {
    let logs = plan.sizes.logs;
    for (is_right, what) in [
        ((1..=32).contains(&plan.ipv4_prefix), "ipv4_prefix"),
        ((1..=128).contains(&plan.ipv6_prefix), "ipv6_prefix"),
        (plan.capacity > 0, "capacity"),
        ((1..=CPUS_MAX).contains(&plan.cpus), "cpus"),
        (logs.logs > 0 && logs.times <= LOG_TIMES_MAX, "logs"),
        (plan.sizes.sets != Some(0), "sets"),
        (is_of_records(plan.sizes.words), "words"),
    ] {
        ensure!(is_right, "{what} is out of range");
    }
    Ok(())
}

/// The words of a record, one for each limit of the largest policy, as a power of two.
const fn is_of_records(words: u32) -> bool {
    words.is_power_of_two() && words as usize <= LIMITS_MAX
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_request_out_of_range_is_refused_and_says_why() {
        check(r#""detach-all""#, Ok(()));
        check(r#"{"detach":"eth0.100"}"#, Ok(()));
        check(r#"{"open":"/sys/fs/bpf/ratelimit"}"#, Ok(()));
        check(r#"{"detach":"../../etc"}"#, Err("not an interface name"));
        check(r#"{"rename":{"eth0":"wan0"}}"#, Ok(()));
        check(
            r#"{"rename":{"eth0":"../wan0"}}"#,
            Err("not an interface name"),
        );
        check(r#"{"detach":""}"#, Err("not an interface name"));
        check(r#"{"detach":".."}"#, Err("not an interface name"));
        check(r#"{"detach":"a b"}"#, Err("not an interface name"));
        check(
            r#"{"detach":"sixteen-letters!"}"#,
            Err("not an interface name"),
        );
        check(r#"{"open":"ratelimit"}"#, Err("not an absolute path"));
        check(r#"{"open":"/"}"#, Err("not an absolute path"));
        check(
            r#"{"open":"/sys/fs/bpf/../../../etc"}"#,
            Err("not an absolute path"),
        );
        check(
            r#"{"attach":{"name":"eth0","slot":32,"mode":"auto","jumbo":false,"features":0}}"#,
            Err("no slot 32"),
        );
        check(
            r#"{"attach":{"name":"eth0","slot":3,"mode":"auto","jumbo":false,"features":0}}"#,
            Ok(()),
        );
        check(
            r#"{"attach":{"name":"eth0","slot":3,"mode":"any","jumbo":false,"features":0}}"#,
            Err("not a request"),
        );
        check(
            r#"{"attach":{"name":"eth0","slot":3,"mode":"auto","jumbo":false,"features":0,"x":1}}"#,
            Err("not a request"),
        );
        check(
            r#"{"prepare":{"name":"..","slot":3,"mode":"auto","jumbo":false,"features":0}}"#,
            Err("not an interface name"),
        );
        for (next, expected) in [
            ("/sys/fs/bpf/other", Ok(())),
            ("other", Err("not an absolute path")),
        ] {
            let plan = r#"{"attach":{"name":"eth0","slot":3,"mode":"auto","jumbo":false,"features":0,"next":"NEXT"}}"#;
            check(&plan.replace("NEXT", next), expected);
        }
        check(r#"{"exec":"/bin/sh"}"#, Err("not a request"));
        check("", Err("not a request"));
        check("\u{0}\u{1}", Err("not a request"));
        check(&"[".repeat(10_000), Err("not a request"));
    }

    #[test]
    fn sizes_out_of_range_are_refused() {
        let right = r#"{"open-maps":{"ipv4_prefix":32,"ipv6_prefix":64,"capacity":1000,"sizes":{"logs":{"times":0,"logs":1},"sets":null,"words":1},"cpus":2}}"#;
        check(right, Ok(()));
        for (from, to, what) in [
            (r#""ipv4_prefix":32"#, r#""ipv4_prefix":33"#, "ipv4_prefix"),
            (r#""ipv6_prefix":64"#, r#""ipv6_prefix":0"#, "ipv6_prefix"),
            (r#""capacity":1000"#, r#""capacity":0"#, "capacity"),
            (r#""capacity":1000"#, r#""capacity":-1"#, "not a request"),
            (r#""cpus":2"#, r#""cpus":0"#, "cpus"),
            (r#""cpus":2"#, r#""cpus":4294967295"#, "cpus"),
            (r#""times":0"#, r#""times":4294967295"#, "logs"),
            (r#""sets":null"#, r#""sets":0"#, "sets"),
            (r#""words":1"#, r#""words":0"#, "words"),
            (r#""words":1"#, r#""words":3"#, "words"),
            (r#""words":1"#, r#""words":16"#, "words"),
        ] {
            check(&right.replace(from, to), Err(what));
        }
    }

    proptest! {
        #[test]
        fn garbage_is_refused_and_never_a_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..600)
        ) {
            prop_assert!(Request::read(&bytes).is_err());
        }

        #[test]
        fn a_damaged_request_is_refused_or_a_right_one(place in 0usize..200, byte in any::<u8>()) {
            let plan = r#"{"open-maps":{"ipv4_prefix":32,"ipv6_prefix":64,"capacity":1000,"sizes":{"logs":{"times":0,"logs":1},"sets":null,"words":1},"cpus":2}}"#;
            let mut bytes = plan.as_bytes().to_vec();
            let place = place % bytes.len();
            bytes[place] = byte;
            if let Ok(request) = Request::read(&bytes) {
                prop_assert!(request.check().is_ok());
            }
        }
    }

    fn check(text: &str, expected: Result<(), &str>) {
        match (Request::read(text.as_bytes()), expected) {
            (Ok(_), Ok(())) => {}
            (Err(error), Err(part)) => {
                let error = format!("{error:#}");
                assert!(error.contains(part), "{text:.80}: {error}");
            }
            (answer, _) => panic!("{text:.80}: {answer:?}"),
        }
    }
}
