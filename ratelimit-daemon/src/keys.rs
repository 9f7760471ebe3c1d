//! Key spaces: limits of users, tokens and URLs, for the applications and proxies of the host.
//!
//! Requests are answered by the thread that reads them, without the controller. A lock is held for
//! one request, or for a copy of the usage.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

use anyhow::Context;
use ratelimit_common::{Instant, lease::Demand};
use ratelimit_core::{
    api::{BusyKey, KeyUsage, ObtainAnswer, ObtainRequest, ProgramBanRequest, Refused},
    config::{Config, SourceConfig},
    keys::{
        self, Counts, KEY_BYTES_MAX, KeyHash, KeyShares, KeysConfig, Level, Mode, Obtained, Saved,
        Space,
    },
};
use tokio::sync::mpsc;
use tracing::warn;

use crate::{clock, private};

/// The file with the usage, in the state directory.
const FILE: &str = "keys.usage";
/// Bans that may wait for the controller. A client beyond them is counted again.
const BANS_WAITING: usize = 1024;
/// The clock of the spaces when there is no earlier usage. No window reaches back beyond 0.
const CLOCK_START: u64 = 1 << 54;

/// The key spaces, shared by all threads.
#[derive(Clone, Debug)]
pub struct Keys(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    file: PathBuf,
    /// The clock of the spaces minus the time since boot, in nanoseconds.
    clock_offset: u64,
    settings: RwLock<Arc<Settings>>,
    bans: mpsc::Sender<ProgramBanRequest>,
    /// Held while the file is written: a snapshot may be under way when the daemon stops.
    saving: Mutex<()>,
    /// Taken by the task that passes them on.
    wanted: Mutex<Option<mpsc::Receiver<ProgramBanRequest>>>,
}

#[derive(Debug, Default)]
struct Settings {
    config: KeysConfig,
    source: SourceConfig,
    spaces: BTreeMap<String, Arc<Mutex<Space>>>,
}

/// The answer to a proxy.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The quota obtained for one request.
    pub obtained: Obtained,
    /// The usage of the key after it.
    pub levels: Vec<Level>,
}

impl Keys {
    /// Opens the spaces of a configuration with the usage that was saved, and returns why that
    /// cannot be used, if it cannot.
    pub fn open(config: &Config) -> (Self, Option<String>) {
        let file = config.paths.state.join(FILE);
        let saved = config.snapshot.every.map(|_| read(&file));
        let (saved, error) = match saved.unwrap_or(Ok(None)) {
            Ok(saved) => (saved, None),
            Err(error) => (
                None,
                Some(format!("{error:#}; all keys start without usage")),
            ),
        };
        let since_boot = clock::since_boot().as_nanos();
        let now = saved.as_ref().map_or(CLOCK_START, |saved| {
            saved.time(&clock::boot_id(), since_boot, clock::wall_millis())
        });
        let (bans, wanted) = mpsc::channel(BANS_WAITING);
        let keys = Self(Arc::new(Shared {
            file,
            clock_offset: now.wrapping_sub(since_boot),
            settings: RwLock::default(),
            bans,
            saving: Mutex::default(),
            wanted: Mutex::new(Some(wanted)),
        }));
        keys.replace(config, saved.unwrap_or_default());
        (keys, error)
    }

    /// Follows the configuration. Usage of limits that did not change is kept.
    pub fn follow(&self, config: &Config) {
        self.replace(config, Saved::default());
    }

    fn replace(&self, config: &Config, mut saved: Saved) {
        let (before, now) = (self.settings(), self.now());
        let spaces = config.keys.spaces.iter().map(|(name, space)| {
            let own = if let Some(own) = before.spaces.get(name) {
                if before.config.spaces.get(name) != Some(space) {
                    lock(own).configure(space, now);
                }
                Arc::clone(own)
            } else {
                let saved = saved.spaces.remove(name);
                let own = saved.map_or_else(
                    || Space::new(space),
                    |saved| Space::restore(saved, space, now),
                );
                Arc::new(Mutex::new(own))
            };
            (name.clone(), own)
        });
        let settings = Arc::new(Settings {
            spaces: spaces.collect(),
            config: config.keys.clone(),
            source: config.source.clone(),
        });
        *self
            .0
            .settings
            .write()
            .unwrap_or_else(PoisonError::into_inner) = settings;
    }

    /// Whether an address may ask, and name the clients of requests.
    pub fn is_trusted(&self, address: IpAddr) -> bool {
        self.settings().config.is_trusted(address)
    }

    /// Obtains requests of keys. If one of them is invalid, nothing is obtained.
    pub fn obtain(&self, requests: &[ObtainRequest]) -> Result<Vec<ObtainAnswer>, Refused> {
        let settings = self.settings();
        let spaces = requests.iter().map(|request| {
            check_key(&request.key)?;
            settings.space(&request.space)
        });
        let spaces = spaces.collect::<Result<Vec<_>, Refused>>()?;
        let now = self.now();
        let answers = requests.iter().zip(spaces).map(|(request, space)| {
            let ObtainRequest {
                key, amount, mode, ..
            } = request;
            let obtained = lock(space).obtain(key, *amount, *mode, now);
            if let Some(client) = request.client.filter(|_| obtained.amount < *amount) {
                self.refused(&settings, &request.space, client, now);
            }
            ObtainAnswer {
                obtained: obtained.amount,
                remaining: obtained.remaining,
                retry_after: obtained.retry_after.map(|after| after.as_secs_f64()),
            }
        });
        Ok(answers.collect())
    }

    /// Decides about a request that a proxy has received. `None` if it is not limited.
    pub fn decide(
        &self,
        space: &str,
        request: &impl keys::Request,
    ) -> Result<Option<Decision>, Refused> {
        let (settings, now) = (self.settings(), self.now());
        let own = settings.space(space)?;
        let parts = settings.config.spaces.get(space).map(|it| &it.key[..]);
        let parts = parts.filter(|parts| !parts.is_empty()).ok_or_else(|| {
            Refused::because(format!("[keys.{space}] has no `key`"))
                .hint("write for example key = { header = \"X-User\" }, and reload")
        })?;
        let Some(key) = keys::key(parts, request, &settings.source) else {
            return Ok(None);
        };
        let decision = {
            let mut own = lock(own);
            let obtained = own.obtain(&key, 1, Mode::All, now);
            let mut levels = own.levels(&key, now);
            let shared = levels.iter_mut();
            for level in shared.filter(|level| level.limit.0.division().is_some()) {
                // Other nodes may use what is left beyond the share of this node.
                let taken = level.capacity.saturating_sub(obtained.remaining);
                level.used = level.used.max(taken);
            }
            Decision { obtained, levels }
        };
        if let Some(client) = request.client().filter(|_| decision.obtained.amount == 0) {
            self.refused(&settings, space, client, now);
        }
        Ok(Some(decision))
    }

    /// Counts a refusal of a client, and has it banned if it is the last one. A trusted proxy is
    /// never banned.
    fn refused(&self, settings: &Settings, name: &str, client: IpAddr, now: Instant) {
        let client = client.to_canonical();
        if settings.config.is_trusted(client) {
            return;
        }
        let (Ok(space), Some(config)) = (settings.space(name), settings.config.spaces.get(name))
        else {
            return;
        };
        let Some(on_refused) = config.on_refused else {
            return;
        };
        if !lock(space).refuse(settings.source.around(client), now) {
            return;
        }
        let ban = ProgramBanRequest {
            program: format!("keys/{name}"),
            sources: vec![client],
            seconds: Some(on_refused.ban.as_secs_f64()),
            reason: Some(format!(
                "refused {} times by [keys.{name}]",
                on_refused.after
            )),
            ..ProgramBanRequest::default()
        };
        if self.0.bans.try_send(ban).is_err() {
            warn!(%client, "too many bans are waiting; the client is counted again");
        }
    }

    /// Returns the keys of a space that are closest to a limit.
    pub fn top(&self, space: &str, count: usize) -> Result<Vec<BusyKey>, Refused> {
        let settings = self.settings();
        let top = lock(settings.space(space)?).top(count, self.now());
        Ok(top.into_iter().map(|it| BusyKey::of(space, it)).collect())
    }

    /// Returns the usage of a key.
    pub fn check(&self, space: &str, key: &str) -> Result<KeyUsage, Refused> {
        check_key(key)?;
        let settings = self.settings();
        let levels = lock(settings.space(space)?).levels(key, self.now());
        Ok(KeyUsage {
            space: space.to_owned(),
            key: key.to_owned(),
            limits: levels.into_iter().map(Into::into).collect(),
        })
    }

    /// Forgets the usage of a key, and returns whether it had any.
    pub fn reset(&self, space: &str, key: &str) -> Result<bool, Refused> {
        check_key(key)?;
        let settings = self.settings();
        Ok(lock(settings.space(space)?).reset(key))
    }

    /// Returns the demand for the shared limits of a space.
    pub fn demands(&self, space: &str) -> Vec<(KeyHash, Demand)> {
        let settings = self.settings();
        let space = settings.spaces.get(space);
        space.map_or_else(Vec::new, |space| lock(space).demands(self.now()))
    }

    /// Returns the usage of a limit of a space by a key: now, and in `later_ns`.
    pub fn used(&self, space: &str, key: &KeyHash, index: usize, later_ns: u64) -> [u64; 2] {
        let settings = self.settings();
        let now = self.now();
        let then = Instant::from_nanos(now.as_nanos().saturating_add(later_ns));
        let space = settings.spaces.get(space);
        space.map_or([0; 2], |space| lock(space).used(key, index, [now, then]))
    }

    /// Sets the shares of this node in the limits of a space. Leases end by the monotonic clock.
    pub fn set_shares(&self, space: &str, mut shares: KeyShares) {
        let (now, monotonic) = (self.now().as_nanos(), clock::now().as_nanos());
        for share in shares.values_mut().flatten().flatten() {
            let left = share.until.as_nanos().saturating_sub(monotonic);
            share.until = Instant::from_nanos(now.saturating_add(left));
        }
        if let Some(space) = self.settings().spaces.get(space) {
            lock(space).set_shares(shares);
        }
    }

    /// Returns the counters of each space.
    pub fn counts(&self) -> Vec<(String, Counts)> {
        let settings = self.settings();
        let spaces = settings.spaces.iter();
        let counts = spaces.map(|(name, space)| (name.clone(), lock(space).counts()));
        counts.collect()
    }

    /// Saves the usage for a restart.
    pub fn save(&self) -> anyhow::Result<()> {
        let Shared { file, saving, .. } = &*self.0;
        let _saving = saving.lock().unwrap_or_else(PoisonError::into_inner);
        let settings = self.settings();
        if settings.spaces.is_empty() {
            return private::remove(file).map(drop);
        }
        let spaces = settings.spaces.iter();
        let spaces = spaces.map(|(name, space)| (name.clone(), lock(space).save()));
        let saved = Saved {
            spaces: spaces.collect(),
            now: self.now().as_nanos(),
            boot: clock::boot_id(),
            since_boot: clock::since_boot().as_nanos(),
            wall_millis: clock::wall_millis(),
        };
        let bytes = saved.encode();
        private::replace(file, |file| file.write_all(&bytes))
            .with_context(|| format!("writing {}", file.display()))
    }

    /// Returns the bans that clients get; once, for the task that passes them on.
    pub fn take_bans(&self) -> Option<mpsc::Receiver<ProgramBanRequest>> {
        let mut wanted = self.0.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.take()
    }

    fn settings(&self) -> Arc<Settings> {
        Arc::clone(
            &self
                .0
                .settings
                .read()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    /// The clock of the spaces, which continues over a restart and a reboot.
    fn now(&self) -> Instant {
        let since_boot = clock::since_boot().as_nanos();
        Instant::from_nanos(since_boot.wrapping_add(self.0.clock_offset))
    }
}

impl Settings {
    fn space(&self, name: &str) -> Result<&Mutex<Space>, Refused> {
        let space = self.spaces.get(name).map(|space| &**space);
        space.ok_or_else(|| {
            Refused::because(format!("there is no key space `{name}`")).hint(format!(
                "write [keys.{name}] in the configuration, and reload"
            ))
        })
    }
}

fn check_key(key: &str) -> Result<(), Refused> {
    if key.len() <= KEY_BYTES_MAX {
        return Ok(());
    }
    Err(Refused::because(format!(
        "a key is longer than {KEY_BYTES_MAX} bytes"
    )))
}

fn lock(space: &Mutex<Space>) -> MutexGuard<'_, Space> {
    space.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read(file: &Path) -> anyhow::Result<Option<Saved>> {
    let context = || format!("the usage of keys in {} cannot be used", file.display());
    let bytes = private::if_there(fs::read(file)).with_context(context)?;
    let saved = bytes.map(|bytes| Saved::decode(&bytes)).transpose();
    saved.with_context(context)
}
