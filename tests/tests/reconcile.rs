//! Another process changes the kernel's lists.

use std::fmt::Write as _;

use aya::maps::{HashMap, Map, MapData};
use ratelimit_common::{Ipv4, ListEntry, generation::ByGeneration, list::PrefixKey};
use ratelimit_tests::{attached, require_root, service::Service};

const CONFIG: &str = "[policy.default]\nlimits = []\n";
/// More entries than are read each second.
const ENTRIES: u32 = 20_000;

#[test]
fn a_ban_that_is_removed_from_a_long_list_is_back_after_a_second() {
    require_root!();
    let (_lab, mut service) = Service::in_lab(CONFIG).unwrap();
    service.is_tampered_with = true;
    let mut addresses = String::new();
    for number in 0..ENTRIES {
        writeln!(addresses, "198.18.{}.{}", number / 256, number % 256).unwrap();
    }
    let file = service.path("list.txt");
    std::fs::write(&file, addresses).unwrap();
    service
        .rlctl_ok(&["import", file.to_str().unwrap(), "--list", "long"])
        .unwrap();
    let mut lists = lists(&service);
    let [gone, allowed] =
        [[198, 18, 7, 7], [198, 18, 9, 9]].map(|address| PrefixKey::new(Ipv4::new(address), 32));
    let ban = lists.get(&gone, 0).unwrap();
    lists.remove(&gone).unwrap();
    service.wait_for_log("repaired the kernel tables").unwrap();
    assert_eq!(lists.get(&gone, 0).unwrap(), ban);
    lists
        .insert(
            allowed,
            ByGeneration::both(ListEntry::new(true, None, None)),
            0,
        )
        .unwrap();
    // Its turn comes within three seconds: 8,192 entries are read in each.
    service.wait_until("the repair", || !(lists.get(&allowed, 0).unwrap() != ban));
    let metrics = service.get("/metrics", "*/*").unwrap();
    assert!(
        metrics.contains("ratelimit_repaired_total{kind=\"entry\"} 2\n"),
        "{metrics}"
    );
}

fn lists(service: &Service) -> HashMap<MapData, PrefixKey<Ipv4>, ByGeneration<ListEntry>> {
    let map = MapData::from_pin(attached::pin(service, "LISTS_V4"));
    let map = Map::HashMap(map.unwrap());
    map.try_into().unwrap()
}
