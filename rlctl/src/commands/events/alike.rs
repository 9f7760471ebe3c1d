//! Drops that are alike, in one line.

use jiff::Zoned;
use ratelimit_core::api::{Event, SeenDrops, What};

use super::text;

/// The drops since the last event of another kind.
#[derive(Default)]
pub struct Alike(Vec<SeenDrops>);

impl Alike {
    /// Takes a drop, which comes after all that were taken; `false` for another event.
    pub fn take(&mut self, event: &Event) -> bool {
        let What::Drop(dropped) = &event.what else {
            return false;
        };
        let is_like =
            |seen: &SeenDrops| matches!(&seen.last.what, What::Drop(it) if it.is_like(dropped));
        let before = self.0.iter().position(is_like);
        let before = before.map(|index| self.0.remove(index));
        let (count, since) = before.map_or((0, event.at), |seen| (seen.count, seen.since));
        self.0.push(SeenDrops {
            last: event.clone(),
            count: count + 1,
            since,
        });
        true
    }

    /// Gives out the lines of those that were taken, in the order of the last of each.
    pub fn lines(&mut self, now: &Zoned) -> Vec<String> {
        let seen = self.0.drain(..);
        seen.map(|seen| text::drops(&seen, now)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use ratelimit_core::api::{Dropped, PacketRequest};

    use super::*;

    #[test]
    fn drops_that_differ_by_their_source_port_alone_are_one_line() {
        let mut alike = Alike::default();
        for (second, last, port) in [(1, 7, 1024), (2, 8, 1024), (3, 7, 1025), (4, 7, 1026)] {
            assert!(alike.take(&drop(second, last, port)));
        }
        let expected = [
            "14:22:02 dropped 203.0.113.8 (to port 53 from port 1024) on eth0: limited",
            "14:22:04 dropped 203.0.113.7 (to port 53 from port 1026) on eth0: limited, the last of 3 since 14:22:01",
        ];
        let lines = alike.lines(&now());
        let plain = lines
            .iter()
            .map(|line| anstream::adapter::strip_str(line).to_string());
        assert_eq!(plain.collect::<Vec<_>>(), expected);
        assert!(alike.lines(&now()).is_empty(), "they were given out");
        let other = Event {
            what: What::PassAllOff { by: None },
            ..drop(5, 7, 1)
        };
        assert!(!alike.take(&other));
    }

    fn drop(second: u8, last: u8, source_port: u16) -> Event {
        let source: IpAddr = [203, 0, 113, last].into();
        Event {
            number: second.into(),
            at: format!("2026-03-02T14:22:0{second}Z").parse().unwrap(),
            what: What::Drop(Dropped {
                source,
                from: None,
                packet: PacketRequest {
                    destination_port: Some(53),
                    source_port: Some(source_port),
                    ..PacketRequest::default()
                },
                reason: "limited".to_owned(),
                observed: false,
                policy: None,
                limit: None,
                interface: "eth0".to_owned(),
            }),
        }
    }

    fn now() -> Zoned {
        "2026-03-02T14:50:00Z[UTC]".parse().unwrap()
    }
}
