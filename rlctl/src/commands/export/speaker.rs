//! Routes in the words of BGP speakers.

use std::collections::BTreeMap;

use ratelimit_core::{api::UpstreamRoutes, prefix::Prefix};

/// The commands of a BGP speaker.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Speaker {
    /// The text API of `ExaBGP`.
    Exabgp,
    /// The text API of `ExaBGP`, with flow specifications (RFC 8955).
    ExabgpFlowspec,
    /// Arguments of `gobgp`.
    Gobgp,
    /// Static routes of `FRRouting`, whose tag its route map matches.
    Frr,
}

/// The commands that announce a route and take it back.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Commands {
    announce: String,
    withdraw: String,
}

/// The routes that were announced.
pub struct Announced {
    speaker: Speaker,
    routes: BTreeMap<Prefix, Commands>,
}

impl Announced {
    /// Nothing was announced yet.
    pub fn new(speaker: Speaker) -> Self {
        Self {
            speaker,
            routes: BTreeMap::new(),
        }
    }

    /// Returns the commands that lead to `wanted`, withdrawals first.
    pub fn update(&mut self, wanted: &UpstreamRoutes) -> Vec<String> {
        let wanted: BTreeMap<Prefix, Commands> = wanted
            .routes
            .iter()
            .map(|prefix| (*prefix, self.speaker.commands(*prefix, wanted)))
            .collect();
        let gone = self.routes.iter();
        let gone = gone.filter(|(prefix, _)| !wanted.contains_key(prefix));
        let gone = gone.map(|(_, commands)| commands.withdraw.clone());
        let new = wanted.iter();
        let new = new.filter(|(prefix, commands)| self.routes.get(prefix) != Some(commands));
        let new = new.map(|(_, commands)| commands.announce.clone());
        let commands = gone.chain(new).collect();
        self.routes = wanted;
        commands
    }
}

impl Speaker {
    fn commands(self, prefix: Prefix, routes: &UpstreamRoutes) -> Commands {
        let is_v4 = prefix.address().is_ipv4();
        let next_hop = if is_v4 {
            routes.next_hop.map(|it| it.to_string())
        } else {
            routes.next_hop_v6.map(|it| it.to_string())
        };
        let communities: Vec<String> = routes.communities.iter().map(ToString::to_string).collect();
        let prefix = format!("{}/{}", prefix.address(), prefix.len());
        let [announce, withdraw] = match self {
            Self::Exabgp => {
                let next_hop = next_hop.as_deref().unwrap_or("self");
                let route = format!("route {prefix} next-hop {next_hop}");
                let communities =
                    unless_empty(&communities, |it| format!(" community [{}]", it.join(" ")));
                [
                    format!("announce {route}{communities}"),
                    format!("withdraw {route}"),
                ]
            }
            Self::ExabgpFlowspec => {
                let communities =
                    unless_empty(&communities, |it| format!(" community [{}];", it.join(" ")));
                ["announce", "withdraw"].map(|verb| {
                    format!(
                        "{verb} flow route {{ match {{ source {prefix}; }} then {{ \
                         discard;{communities} }} }}"
                    )
                })
            }
            Self::Gobgp => {
                let family = if is_v4 { "ipv4" } else { "ipv6" };
                let next_hop = next_hop.map(|it| format!(" nexthop {it}"));
                let next_hop = next_hop.unwrap_or_default();
                let communities =
                    unless_empty(&communities, |it| format!(" community {}", it.join(",")));
                [
                    format!("global rib add -a {family} {prefix}{next_hop}{communities}"),
                    format!("global rib del -a {family} {prefix}"),
                ]
            }
            Self::Frr => {
                let family = if is_v4 { "ip" } else { "ipv6" };
                let route = format!("{family} route {prefix} blackhole tag 666");
                [route.clone(), format!("no {route}")]
            }
        };
        Commands { announce, withdraw }
    }
}

fn unless_empty(list: &[String], text: impl FnOnce(&[String]) -> String) -> String {
    if list.is_empty() {
        return String::new();
    }
    text(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_announced_and_withdrawn_once() {
        for (speaker, announced, withdrawn) in [
            (
                Speaker::Exabgp,
                [
                    "announce route 203.0.113.7/32 next-hop 192.0.2.1 community [65535:666 1:2]",
                    "announce route 2001:db8::/64 next-hop self community [65535:666 1:2]",
                ],
                "withdraw route 203.0.113.7/32 next-hop 192.0.2.1",
            ),
            (
                Speaker::ExabgpFlowspec,
                [
                    "announce flow route { match { source 203.0.113.7/32; } then { discard; \
                     community [65535:666 1:2]; } }",
                    "announce flow route { match { source 2001:db8::/64; } then { discard; \
                     community [65535:666 1:2]; } }",
                ],
                "withdraw flow route { match { source 203.0.113.7/32; } then { discard; community \
                 [65535:666 1:2]; } }",
            ),
            (
                Speaker::Gobgp,
                [
                    "global rib add -a ipv4 203.0.113.7/32 nexthop 192.0.2.1 community \
                     65535:666,1:2",
                    "global rib add -a ipv6 2001:db8::/64 community 65535:666,1:2",
                ],
                "global rib del -a ipv4 203.0.113.7/32",
            ),
            (
                Speaker::Frr,
                [
                    "ip route 203.0.113.7/32 blackhole tag 666",
                    "ipv6 route 2001:db8::/64 blackhole tag 666",
                ],
                "no ip route 203.0.113.7/32 blackhole tag 666",
            ),
        ] {
            let mut lines = Announced::new(speaker);
            assert_eq!(
                lines.update(&routes(&["203.0.113.7", "2001:db8::/64"])),
                announced
            );
            assert!(
                lines
                    .update(&routes(&["203.0.113.7", "2001:db8::/64"]))
                    .is_empty()
            );
            assert_eq!(lines.update(&routes(&["2001:db8::/64"])), [withdrawn]);
        }
    }

    #[test]
    fn routes_with_other_communities_are_announced_again() {
        let mut lines = Announced::new(Speaker::Exabgp);
        lines.update(&routes(&["203.0.113.7"]));
        let other = UpstreamRoutes {
            communities: vec![],
            ..routes(&["203.0.113.7"])
        };
        let announced = ["announce route 203.0.113.7/32 next-hop 192.0.2.1"];
        assert_eq!(lines.update(&other), announced);
    }

    fn routes(prefixes: &[&str]) -> UpstreamRoutes {
        UpstreamRoutes {
            next_hop: Some([192, 0, 2, 1].into()),
            next_hop_v6: None,
            communities: ["65535:666", "1:2"].map(|it| it.parse().unwrap()).into(),
            routes: prefixes.iter().map(|it| it.parse().unwrap()).collect(),
            left_out: 0,
        }
    }
}
