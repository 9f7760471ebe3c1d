//! The tests, a concept a file, in one program: what one waits for, others use, and it is linked
//! once.
//!
//! Those that other kernels run in an emulator are programs of their own: `cargo xtask kernels`.

mod acknowledgements;
mod adopted_bans;
mod attach;
mod attack_captures;
mod attacks;
mod buffers;
mod cached_denial;
mod captures;
#[path = "challenge/main.rs"]
mod challenge;
mod challenge_dns;
mod check;
mod classes;
mod clock;
mod cluster;
mod cluster_budgets;
mod cluster_campaign;
mod cluster_changes;
mod cluster_failures;
mod cluster_scopes;
mod cluster_store;
mod compact;
mod crowdsec;
mod dashboard;
mod default_deny;
mod demo;
mod destinations;
mod doctor;
mod ends;
mod entry_counters;
mod established;
mod events;
mod exactness;
mod exactness_matrix;
mod fail2ban;
mod fallback;
mod floods;
mod folding;
mod forgeable;
mod full_disk;
mod further_limits;
mod geo;
mod grafana;
mod history;
mod interface_rules;
mod interfaces;
mod json;
mod jumbo;
mod jumbo_interface;
mod keys;
mod killed;
mod link_layer;
mod lists;
mod live;
mod lockout;
mod longest_match;
mod lookup_cache;
mod members;
mod new_sources;
mod new_user;
mod next;
mod openapi;
mod other_tables;
mod package;
mod peers;
mod pinned;
mod policy_bans;
mod privileges;
mod prometheus;
mod protect;
mod reconcile;
mod records;
mod reflection;
mod refused_start;
mod reload;
mod resident;
mod restart;
mod runtime_destinations;
mod sequences;
mod shapes;
mod silent_files;
mod sliding_log;
mod snapshot;
mod sources;
mod strikes;
mod stuck;
mod support;
mod tcp_connections;
mod tcx;
mod terminal;
mod tunnel_devices;
mod tunnels;
mod upstream;
mod verbs;
mod watch;
mod wide;

/// The tests that are programs of their own, as `Cargo.toml` says.
const OWN_PROGRAMS: [&str; 5] = [
    "agreement",
    "layers",
    "list_commands",
    "verifier",
    "vlan_clients",
];

#[test]
fn every_file_is_in_a_program() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let is_test = path.is_dir() || path.extension().is_some_and(|it| it == "rs");
        if !is_test || name == "main" {
            continue;
        }
        let is_here = include_str!("main.rs").contains(&format!("\nmod {name};\n"));
        assert!(
            is_here != OWN_PROGRAMS.contains(&name),
            "{} is in no program: add it to main.rs",
            path.display()
        );
    }
}
