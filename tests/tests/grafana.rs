//! The dashboard of `contrib` as Grafana takes it. `prometheus.rs` has a real Prometheus answer its
//! queries.

use std::collections::BTreeSet;

use serde_json::Value;

const DASHBOARD: &str = include_str!("../../contrib/grafana/ratelimit.json");
const SCHEMA: &str = include_str!("grafana.schema.json");

#[test]
fn it_fits_the_schema_of_dashboards() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let dashboard = dashboard();
    let faults: Vec<String> = validator
        .iter_errors(&dashboard)
        .map(|error| format!("{} {error}", error.instance_path()))
        .collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn panels_have_a_number_and_a_place_of_their_own() {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().unwrap();
    let (mut numbers, mut cells) = (BTreeSet::new(), BTreeSet::new());
    for panel in panels {
        let title = &panel["title"];
        assert!(numbers.insert(panel["id"].as_u64()), "{title}");
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|it| panel["gridPos"][it].as_u64().unwrap());
        assert!(x + w <= 24, "{title}");
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(cells.insert(cell), "{title} is over another one");
        }
        let names: Vec<&Value> = targets(panel).map(|it| &it["refId"]).collect();
        let distinct: BTreeSet<String> = names.iter().map(ToString::to_string).collect();
        assert_eq!(distinct.len(), names.len(), "{title}");
        let steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"].as_array();
        let steps = steps
            .into_iter()
            .flatten()
            .filter_map(|it| it["value"].as_f64());
        assert!(steps.is_sorted(), "{title}");
    }
}

/// A panel that shows one job or host shows the one that is chosen.
#[test]
fn every_query_is_of_the_variables_that_there_are() {
    const OWN: [&str; 2] = ["__rate_interval", "__range"];
    let dashboard = dashboard();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let known: BTreeSet<&str> = variables
        .iter()
        .filter_map(|it| it["name"].as_str())
        .collect();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut used = BTreeSet::from(["datasource"]);
    let queries = panels
        .iter()
        .flat_map(targets)
        .map(|it| it["expr"].as_str().unwrap());
    for query in queries {
        for name in query.split('$').skip(1) {
            let end = name.find(|it: char| !it.is_alphanumeric() && it != '_');
            let name = &name[..end.unwrap_or(name.len())];
            assert!(known.contains(name) || OWN.contains(&name), "{query}");
            used.insert(name);
        }
        for name in ["job", "instance"] {
            assert!(query.contains(&format!("{name}=~\"${name}\"")), "{query}");
        }
    }
    assert!(known.is_subset(&used), "{known:?} {used:?}");
}

/// Grafana's `bps` are bits, and its `Bps` bytes.
#[test]
fn what_is_in_bits_is_counted_in_bits() {
    let dashboard = dashboard();
    for panel in dashboard["panels"].as_array().unwrap() {
        let unit = &panel["fieldConfig"]["defaults"]["unit"];
        for target in targets(panel) {
            let query = target["expr"].as_str().unwrap();
            let is_rate = query.contains("rate(") && query.contains("_bytes");
            let is_bits = query.contains("8 *") || query.contains("* 8");
            match unit.as_str() {
                Some("bps") => assert!(is_rate && is_bits, "{query}"),
                Some("Bps") => assert!(is_rate && !is_bits, "{query}"),
                _ => assert!(!is_rate, "{query} in {unit}"),
            }
        }
    }
}

fn dashboard() -> Value {
    serde_json::from_str(DASHBOARD).unwrap()
}

fn targets(panel: &Value) -> impl Iterator<Item = &Value> {
    panel["targets"].as_array().into_iter().flatten()
}
