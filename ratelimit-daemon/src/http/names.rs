//! Names of users, which may come from a network directory (LDAP, sssd). They are looked up in the
//! background with a short timeout.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::clock;
use tokio::{
    sync::{Semaphore, watch},
    task::spawn_blocking,
    time::timeout,
};

/// The longest wait of a request for a name. After that, its author is a number.
const PATIENCE: Duration = Duration::from_secs(1);
/// The lifetime of a cached name.
const FRESH: Duration = Duration::from_mins(5);
/// Lookups at a time: each holds a thread until the directory answers.
const LOOKUPS_MAX: usize = 4;
/// Users whose names are kept.
const USERS_MAX: usize = 1024;

type Name = Option<Arc<str>>;

/// The names of users by their numbers.
#[derive(Clone)]
pub struct Names {
    users: Arc<Mutex<HashMap<u32, User>>>,
    lookups: Arc<Semaphore>,
    directory: fn(u32) -> Option<String>,
}

struct User {
    asked: Instant,
    name: watch::Receiver<Name>,
}

impl Names {
    /// The names that the system has.
    pub fn of_system() -> Self {
        Self::of_directory(|uid| {
            let user = uzers::get_user_by_uid(uid)?;
            Some(user.name().to_string_lossy().into_owned())
        })
    }

    fn of_directory(directory: fn(u32) -> Option<String>) -> Self {
        Self {
            users: Arc::default(),
            lookups: Arc::new(Semaphore::new(LOOKUPS_MAX)),
            directory,
        }
    }

    /// Returns the name of a user, or the number if there is no name, or the lookup takes too long.
    pub async fn of(&self, uid: u32) -> Arc<str> {
        if uid == 0 {
            return "root".into();
        }
        let number = || Arc::from(format!("uid {uid}"));
        let Some(mut name) = self.asked(uid) else {
            return number();
        };
        let known = name.borrow().clone();
        if let Some(known) = known {
            return known;
        }
        let found = timeout(PATIENCE, name.wait_for(Option::is_some)).await;
        let found = found.ok().and_then(|found| found.ok()?.clone());
        found.unwrap_or_else(number)
    }

    /// The name, now or when it has been looked up; `None` if too many lookups are running.
    fn asked(&self, uid: u32) -> Option<watch::Receiver<Name>> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let user = users.get(&uid);
        if let Some(user) = user.filter(|user| clock::elapsed(user.asked) < FRESH) {
            return Some(user.name.clone());
        }
        // A name that was known holds until the directory answers again.
        let before = user.and_then(|user| user.name.borrow().clone());
        let Ok(lookup) = Arc::clone(&self.lookups).try_acquire_owned() else {
            return user.map(|user| user.name.clone());
        };
        let (sender, name) = watch::channel(before);
        let directory = self.directory;
        spawn_blocking(move || {
            let name = directory(uid).unwrap_or_else(|| format!("uid {uid}"));
            sender.send_replace(Some(name.into()));
            drop(lookup);
        });
        if users.len() >= USERS_MAX {
            users.clear();
        }
        let asked = clock::monotonic();
        let user = User {
            asked,
            name: name.clone(),
        };
        users.insert(uid, user);
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
        thread,
    };

    use super::*;

    #[tokio::test]
    async fn a_slow_directory_keeps_nobody_waiting_and_its_answer_is_taken_when_it_comes() {
        static ANSWERS: AtomicBool = AtomicBool::new(false);
        let names = Names::of_directory(|uid| {
            while !ANSWERS.load(SeqCst) {
                thread::sleep(Duration::from_millis(5));
            }
            Some(format!("user{uid}"))
        });
        let asked = tokio::spawn({
            let names = names.clone();
            async move { names.of(1000).await }
        });
        // The only thread of this runtime continues.
        tokio::task::yield_now().await;
        assert_eq!(&*names.of(0).await, "root");
        assert!(!asked.is_finished());
        assert_eq!(&*asked.await.unwrap(), "uid 1000");
        ANSWERS.store(true, SeqCst);
        while &*names.of(1000).await == "uid 1000" {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(&*names.of(1000).await, "user1000");
    }

    #[tokio::test]
    async fn a_name_is_looked_up_once_and_no_more_than_some_at_a_time() {
        static LOOKUPS: AtomicUsize = AtomicUsize::new(0);
        static ANSWERS: AtomicBool = AtomicBool::new(false);
        let names = Names::of_directory(|_| {
            LOOKUPS.fetch_add(1, SeqCst);
            while !ANSWERS.load(SeqCst) {
                thread::sleep(Duration::from_millis(5));
            }
            None
        });
        let asking = (0..20).flat_map(|uid| [1000 + uid, 1000]).map(|uid| {
            let names = names.clone();
            tokio::spawn(async move { names.of(uid).await })
        });
        for asked in asking.collect::<Vec<_>>() {
            assert!(asked.await.unwrap().starts_with("uid 10"));
        }
        let lookups = LOOKUPS.load(SeqCst);
        ANSWERS.store(true, SeqCst);
        assert_eq!(lookups, LOOKUPS_MAX);
    }
}
