//! How many connections each user may have. One that only waits for its next request gives way to another one of the same user.

use std::sync::{Arc, Mutex, PoisonError};

use super::{peer::Peer, presence::Presence};

/// Connections of root. They are no part of the others.
const OF_ROOT: usize = 64;
/// Connections of all other users together.
const OF_OTHERS: usize = 64;
/// Connections of one of them.
const OF_USER: usize = 16;

/// The connections of the control socket.
#[derive(Clone, Debug, Default)]
pub struct Seats(Arc<Mutex<Vec<Taken>>>);

#[derive(Clone, Debug)]
struct Taken {
    uid: Option<u32>,
    presence: Presence,
}

/// The place of a connection, until it is dropped.
pub struct Seat {
    seats: Seats,
    presence: Presence,
}

impl Seats {
    /// Takes a place for a connection of a user; `None` where every one that it may have has a request under way.
    pub fn take(&self, peer: &Peer) -> Option<Seat> {
        self.take_for(peer.uid())
    }

    fn take_for(&self, uid: Option<u32>) -> Option<Seat> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (own, room) = match uid {
            Some(0) => (OF_ROOT, OF_ROOT),
            _ => (OF_USER, OF_OTHERS),
        };
        make_room(&all, own, |it| it.uid == uid)?;
        make_room(&all, room, |it| (it.uid == Some(0)) == (uid == Some(0)))?;
        let presence = Presence::new();
        let taken = Taken {
            uid,
            presence: presence.clone(),
        };
        all.push(taken);
        Some(Seat {
            seats: self.clone(),
            presence,
        })
    }
}

/// Sees to it that there is room for one more of those that count, of which there may be `room`; `None` where there is none.
fn make_room(all: &[Taken], room: usize, counts: impl Fn(&Taken) -> bool) -> Option<()> {
    let those = || {
        all.iter()
            .filter(|it| counts(it) && !it.presence.is_leaving())
    };
    if those().count() < room {
        return Some(());
    }
    let idle = those().filter_map(|it| Some((it.presence.idle_since()?, it)));
    let (_, longest) = idle.min_by_key(|(since, _)| *since)?;
    longest.presence.leave();
    Some(())
}

impl Seat {
    /// What its connection is doing.
    pub fn presence(&self) -> &Presence {
        &self.presence
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut all = self.seats.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|taken| !taken.presence.is(&self.presence));
    }
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, http::Request};

    use super::*;

    #[test]
    fn a_user_at_work_with_all_of_its_connections_is_refused_and_others_are_not() {
        let seats = Seats::default();
        let busy: Vec<_> = (0..OF_USER).map(|_| at_work(&seats, 1000)).collect();
        assert!(seats.take_for(Some(1000)).is_none());
        assert!(seats.take_for(Some(1001)).is_some() && seats.take_for(Some(0)).is_some());
        drop(busy);
        assert!(seats.take_for(Some(1000)).is_some());
    }

    #[test]
    fn all_other_users_together_leave_root_its_room() {
        let seats = Seats::default();
        let uids = (0..).flat_map(|uid| [1000 + uid; OF_USER]);
        let busy: Vec<_> = uids
            .take(OF_OTHERS)
            .map(|uid| at_work(&seats, uid))
            .collect();
        assert!(seats.take_for(Some(5000)).is_none());
        assert!(seats.take_for(Some(0)).is_some());
        drop(busy);
    }

    #[test]
    fn the_connection_that_has_been_idle_for_longest_gives_way() {
        let seats = Seats::default();
        let idle: Vec<_> = (0..OF_USER).map(|_| seats.take_for(Some(1000))).collect();
        let idle: Vec<Seat> = idle.into_iter().map(Option::unwrap).collect();
        let _next = seats.take_for(Some(1000)).unwrap();
        let leaving: Vec<bool> = idle.iter().map(|it| it.presence.is_leaving()).collect();
        assert_eq!(leaving.iter().filter(|it| **it).count(), 1);
        // Also while those that leave are not gone yet.
        for _ in 0..3 * OF_USER {
            assert!(seats.take_for(Some(1000)).is_some());
        }
    }

    fn at_work(seats: &Seats, uid: u32) -> impl Sized {
        let seat = seats.take_for(Some(uid)).unwrap();
        let request = seat.presence.begin(Request::new(Body::empty()));
        (seat, request)
    }
}
