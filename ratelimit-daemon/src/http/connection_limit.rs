//! Limits connections per user and per network address. An idle connection is closed in favour of a
//! new one of the same client.

use std::{
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, PoisonError},
};

use super::{peer::Peer, presence::Presence};

/// Connections of root. They are no part of the others.
const OF_ROOT: usize = 64;
/// Connections of all other users together.
const OF_OTHERS: usize = 64;
/// Connections of one of them.
const OF_USER: usize = 16;

/// Connections from the network.
const OF_NETWORK: usize = 64;
/// Connections from one address, or from a /64 of IPv6.
const OF_ADDRESS: usize = 32;

/// The connections of a listener.
#[derive(Clone, Debug, Default)]
pub struct Seats(Arc<Mutex<Vec<Occupied>>>);

#[derive(Clone, Debug)]
struct Occupied {
    by: Client,
    presence: Presence,
}

/// The client of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Client {
    User(Option<u32>),
    Address(IpAddr),
}

/// The place of a connection, until it is dropped.
pub struct Seat {
    seats: Seats,
    presence: Presence,
}

impl Seats {
    /// Takes a place for a connection from the network; `None` where every one that there may be
    /// has a request under way.
    pub fn take_from(&self, address: IpAddr) -> Option<Seat> {
        let address = match address {
            IpAddr::V4(_) => address,
            IpAddr::V6(address) => {
                let network = u128::from(address) & (u128::MAX << 64);
                address
                    .to_ipv4_mapped()
                    .map_or(Ipv6Addr::from(network).into(), IpAddr::V4)
            }
        };
        self.take_for(Client::Address(address), OF_ADDRESS, OF_NETWORK, |_| true)
    }

    /// Takes a place for a connection of a user; `None` where every one that it may have has a
    /// request under way.
    pub fn take(&self, peer: &Peer) -> Option<Seat> {
        self.take_for_user(peer.uid())
    }

    fn take_for_user(&self, uid: Option<u32>) -> Option<Seat> {
        let is_root = |it: Client| it == Client::User(Some(0));
        let by = Client::User(uid);
        let (own, room) = if is_root(by) {
            (OF_ROOT, OF_ROOT)
        } else {
            (OF_USER, OF_OTHERS)
        };
        self.take_for(by, own, room, |other| is_root(other) == is_root(by))
    }

    /// Takes one of `own` places of a client, which are of the `room` that it has in common with
    /// those that count.
    fn take_for(
        &self,
        by: Client,
        own: usize,
        room: usize,
        counts: impl Fn(Client) -> bool,
    ) -> Option<Seat> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        make_room(&all, own, |it| it.by == by)?;
        make_room(&all, room, |it| counts(it.by))?;
        let presence = Presence::new();
        let taken = Occupied {
            by,
            presence: presence.clone(),
        };
        all.push(taken);
        Some(Seat {
            seats: self.clone(),
            presence,
        })
    }
}

/// Makes room for one more of the connections that `counts` selects, of which `room` are permitted.
/// `None` if that is impossible.
fn make_room(all: &[Occupied], room: usize, counts: impl Fn(&Occupied) -> bool) -> Option<()> {
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
    /// Returns the state of its connection.
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
        assert!(seats.take_for_user(Some(1000)).is_none());
        assert!(
            seats.take_for_user(Some(1001)).is_some() && seats.take_for_user(Some(0)).is_some()
        );
        drop(busy);
        assert!(seats.take_for_user(Some(1000)).is_some());
    }

    #[test]
    fn all_other_users_together_leave_root_its_room() {
        let seats = Seats::default();
        let uids = (0..).flat_map(|uid| [1000 + uid; OF_USER]);
        let busy: Vec<_> = uids
            .take(OF_OTHERS)
            .map(|uid| at_work(&seats, uid))
            .collect();
        assert!(seats.take_for_user(Some(5000)).is_none());
        assert!(seats.take_for_user(Some(0)).is_some());
        drop(busy);
    }

    #[test]
    fn the_connection_that_has_been_idle_for_longest_gives_way() {
        let seats = Seats::default();
        let idle: Vec<_> = (0..OF_USER)
            .map(|_| seats.take_for_user(Some(1000)))
            .collect();
        let idle: Vec<Seat> = idle.into_iter().map(Option::unwrap).collect();
        let _next = seats.take_for_user(Some(1000)).unwrap();
        let leaving: Vec<bool> = idle.iter().map(|it| it.presence.is_leaving()).collect();
        assert_eq!(leaving.iter().filter(|it| **it).count(), 1);
        // Also while those that leave are not gone yet.
        for _ in 0..3 * OF_USER {
            assert!(seats.take_for_user(Some(1000)).is_some());
        }
    }

    #[test]
    fn an_address_that_is_silent_gives_way_and_one_at_work_leaves_room_for_others() {
        let seats = Seats::default();
        let [one, other]: [IpAddr; 2] = ["192.0.2.1", "192.0.2.2"].map(|it| it.parse().unwrap());
        let silent: Vec<_> = (0..3 * OF_NETWORK).map(|_| seats.take_from(one)).collect();
        assert!(silent.iter().all(Option::is_some), "the oldest gives way");
        assert!(seats.take_from(other).is_some());
        drop(silent);
        let busy = |address| {
            let seat = seats.take_from(address)?;
            let request = seat.presence.begin(Request::new(Body::empty()));
            Some((seat, request))
        };
        let held: Vec<_> = (0..OF_ADDRESS).map(|_| busy(one).unwrap()).collect();
        assert!(seats.take_from(one).is_none());
        assert!(
            seats
                .take_from("::ffff:192.0.2.1".parse().unwrap())
                .is_none()
        );
        assert!(seats.take_from(other).is_some());
        drop(held);
        let of_network = |host: u128| IpAddr::from(Ipv6Addr::from((0x2001_0db8 << 96) + host));
        let _held: Vec<_> = (0..OF_ADDRESS as u128)
            .map(|it| busy(of_network(it)).unwrap())
            .collect();
        assert!(seats.take_from(of_network(99)).is_none(), "a /64 is one");
    }

    fn at_work(seats: &Seats, uid: u32) -> impl Sized {
        let seat = seats.take_for_user(Some(uid)).unwrap();
        let request = seat.presence.begin(Request::new(Body::empty()));
        (seat, request)
    }
}
