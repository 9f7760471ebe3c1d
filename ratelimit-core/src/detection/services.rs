//! The services that this host itself has connections at: an address and a port.
//!
//! An acknowledgement of no connection is ordinary where it is forwarded, to a container or a host behind this one, also from a
//! port that something listens at. Where connections end here it is not.

use std::{collections::HashSet, net::IpAddr};

use ratelimit_common::Instant;

/// Services of a generation.
const SERVICES_MAX: usize = 1 << 14;
/// How long a service is remembered without connections, at least.
const REMEMBERED_NS: u64 = 600 * 1_000_000_000;

/// An address and a port.
type Service = (IpAddr, u16);

/// Two generations, the younger of which is filled.
#[derive(Debug, Default)]
pub struct Services {
    younger: HashSet<Service>,
    older: HashSet<Service>,
    /// When the younger began.
    began: Option<Instant>,
}

impl Services {
    /// A connection is there at `now`.
    pub fn note(&mut self, service: Service, now: Instant) {
        let began = self.began.get_or_insert(now).as_nanos();
        let is_over = now.as_nanos().saturating_sub(began) >= REMEMBERED_NS;
        if is_over || self.younger.len() >= SERVICES_MAX {
            self.older = std::mem::take(&mut self.younger);
            self.began = Some(now);
        }
        self.younger.insert(service);
    }

    /// Whether there have been connections of late.
    pub fn has(&self, service: &Service) -> bool {
        self.younger.contains(service) || self.older.contains(service)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const WEB: Service = (IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 443);
    const MAIL: Service = (WEB.0, 25);

    #[test]
    fn a_service_is_forgotten_that_had_no_connection_for_two_generations() {
        let mut services = Services::default();
        services.note(WEB, Instant::from_nanos(0));
        for generation in 1..=2 {
            assert!(services.has(&WEB), "generation {generation}");
            services.note(MAIL, Instant::from_nanos(generation * REMEMBERED_NS));
        }
        assert!(!services.has(&WEB));
        assert!(services.has(&MAIL));
    }

    #[test]
    fn a_host_that_asks_from_many_ports_keeps_the_services_it_has() {
        let mut services = Services::default();
        for port in 1..=u16::MAX {
            services.note((WEB.0, port), Instant::from_nanos(0));
            services.note(WEB, Instant::from_nanos(0));
        }
        assert!(services.has(&WEB));
        assert!(services.younger.len() + services.older.len() <= 2 * SERVICES_MAX);
    }
}
