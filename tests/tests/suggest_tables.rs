//! What `rlctl suggest` learns of sliding logs and of the node, from the kernel's own tables of either store.

use std::net::Ipv4Addr;

use ratelimit_core::api::{Suggested, SuggestedLimit};
use ratelimit_tests::{Frame, lab::Sender, require_root, service::Service};

const SOURCES: u32 = 20;
const PACKETS: u64 = 210;
/// So many walks that those weigh little which came while packets did.
const WINDOWS: u64 = 100;

#[test]
fn sliding_logs_and_the_node_are_measured() {
    require_root!();
    for store in ["lru", "compact"] {
        let (lab, service) = Service::in_lab(&toml(store)).unwrap();
        let sender = Sender::new(&lab.far).unwrap();
        // Source n sends n packets.
        for source in 1..=SOURCES {
            let address = Ipv4Addr::from(0x0a01_0000 + source);
            let frame = Frame::ethernet().ipv4(address).udp(9).pad_to(60).build();
            for _ in 0..source {
                sender.send(&frame).unwrap();
            }
        }
        let reported = wait_for_windows(&service);
        for limit in &reported.limits[..2] {
            assert!((8..=11).contains(&limit.median), "{store}: {limit:?}");
            assert_eq!((limit.most, limit.sources), (20, 20), "{store}");
            assert!(!limit.at_least && limit.proposed.is_some(), "{store}");
        }
        let node = reported.limits.iter().find(|it| it.policy == "[node]");
        let SuggestedLimit { most, sources, .. } = node.unwrap();
        // The CPUs draw up to 1/128 more than they have spent, and bins are 1 % wide.
        assert!((PACKETS..=PACKETS + 10).contains(most), "{store}: {most}");
        assert_eq!(*sources, 1);
    }
}

fn toml(store: &str) -> String {
    format!(
        "[source]\nstore = \"{store}\"\n[policy.default]\nlimits = [\
         {{ packets = 40, per = \"10m\", algorithm = \"sliding-log\" }},\
         {{ packets = 90, per = \"10m\", algorithm = \"sliding-window\" }}]\n\
         [node]\nlimits = [{{ packets = 1000, per = \"10m\", algorithm = \"sliding-window\" }}]\n"
    )
}

fn wait_for_windows(service: &Service) -> Suggested {
    service.wait_for("enough windows", || {
        let reported = service.json::<Suggested>(&["suggest", "--percentile", "50"]);
        let has_enough = |it: &Suggested| it.limits[..2].iter().all(|it| it.windows >= WINDOWS);
        reported.ok().filter(has_enough)
    })
}
