//! Whether what the files say fits together.

mod classes;
mod shared;

use std::collections::{BTreeMap, HashMap};

use super::{
    AggregateConfig, Config, Interface, ListConfig, NodeConfig, PolicyConfig, ban, destination,
    detection::{PER_MINUTE_DEFAULT, UNVERIFIED_DEFAULT},
    document::Document,
    file::File,
    history, interface,
    list::NamedList,
    new_sources,
    policy::{self, Policy},
    prefixes::{self, Places},
    report::{At, Report, Spot},
};
use crate::{detection::Rules, diagnostic::Problem, prefix::Prefix};

/// The configuration that `document` is. It counts only when nothing was reported.
pub fn compile(files: &[File], document: &Document, report: &mut Report) -> Config {
    let mut places = Places::default();
    for policy in &document.policies {
        places.enter(&policy.title, &policy.sources, report);
    }
    Places::default().enter("[allow]", &document.allow, report);
    prefixes::check_protected(&document.protected, report);
    interface::check_policies(&document.interfaces, &document.policies, report);
    let mut policies = policies(&document.policies, report);
    let default_policy = policies.remove(policy::DEFAULT);
    if default_policy.is_none() {
        report.add_absent(Problem::new(
            "no [policy.default]",
            "write limits = [] there if sources without a policy are to be unlimited",
        ));
    }
    let classes = classes::compile(document, report);
    shared::check(document, report);
    let source = value_or_default(document.source.as_ref());
    for policy in &document.policies {
        if let Some(ban) = &policy.ban {
            ban::check_width(&ban.spot, &source, report);
        }
    }
    let aggregate = document.aggregate.as_ref();
    let node = document.node.as_ref();
    let detection = document.detection.as_ref();
    let history = value_or_default(document.history.as_ref());
    history::check_policies(&history, &document.policies, report);
    let metrics = value_or_default(document.metrics.as_ref());
    Config {
        files: files.iter().map(|file| file.path.clone()).collect(),
        interfaces: interfaces(&document.interfaces, report),
        classes,
        default_policy: default_policy.unwrap_or_default(),
        policies,
        aggregate: aggregate.map_or_else(AggregateConfig::default, |at| {
            at.value.compile(&source, report)
        }),
        destinations: destination::compile(&document.destinations, report),
        node: node.map_or_else(NodeConfig::default, |at| {
            at.value.compile_beside(document.challenge.as_ref(), report)
        }),
        new_sources: match &document.new_sources {
            Some(at) => at.value,
            None => new_sources::of_store(&source),
        },
        source,
        challenge: document
            .challenge
            .as_ref()
            .and_then(|at| at.value.challenge.clone()),
        bans_per_minute: detection.map_or(PER_MINUTE_DEFAULT, |at| at.value.bans_per_minute),
        unverified_per_minute: detection
            .map_or(UNVERIFIED_DEFAULT, |at| at.value.unverified_per_minute),
        attacks: detection.map_or_else(Rules::new, |at| at.value.attacks.clone()),
        allow: sorted(&document.allow),
        protected: sorted(&document.protected),
        lists: lists(&document.lists, report),
        observe: value_or_default(document.observe.as_ref()),
        clock: value_or_default(document.clock.as_ref()),
        on_stop: value_or_default(document.on_stop.as_ref()),
        paths: value_or_default(document.paths.as_ref()),
        metrics: metrics.listen,
        dashboard: metrics.dashboard,
        // It is the dashboard that it is for.
        dashboard_token: metrics.token_file.clone(),
        history: history.keep,
        watched: values(&history.watch),
        crowdsec: document.crowdsec.as_ref().map(|at| at.value.clone()),
        cluster: document.cluster.as_ref().map(|at| at.value.clone()),
    }
}

fn policies(located: &[Policy], report: &mut Report) -> BTreeMap<String, PolicyConfig> {
    let mut policies = BTreeMap::new();
    let mut places: HashMap<&str, &Spot> = HashMap::new();
    for policy in located {
        if let Some(first) = places.insert(&policy.name, &policy.spot) {
            let what = format!("{} is defined twice", policy.title);
            let hint = "make them one, or give one another name";
            report.add_repeated(&policy.spot, first, &what, hint);
        }
        let compiled = PolicyConfig {
            sources: sorted(&policy.sources),
            limits: values(&policy.limits),
            observe: policy.observe,
            ban: policy.ban.as_ref().map(|ban| ban.value),
        };
        policies.insert(policy.name.clone(), compiled);
    }
    policies
}

fn lists(located: &[NamedList], report: &mut Report) -> BTreeMap<String, ListConfig> {
    let mut lists = BTreeMap::new();
    let mut places: HashMap<&str, &Spot> = HashMap::new();
    for NamedList { name, list } in located {
        if let Some(first) = places.insert(&name.value, &name.spot) {
            let what = format!("[list.{}] is defined twice", name.value);
            report.add_repeated(&name.spot, first, &what, "give one of them another name");
        }
        if let Some(list) = list {
            lists.insert(name.value.clone(), list.clone());
        }
    }
    lists
}

fn interfaces(located: &[Option<interface::Located>], report: &mut Report) -> Vec<Interface> {
    if located.is_empty() {
        report.add_absent(Problem::new(
            "no interface",
            "write [[interface]], and under it name = \"eth0\"",
        ));
    }
    let located = located.iter().flatten();
    let located: Vec<&At<Interface>> = located.map(|it| &it.interface).collect();
    let mut places: HashMap<&str, &Spot> = HashMap::new();
    for At { value, spot } in &located {
        if let Some(first) = places.insert(&value.name, spot) {
            let what = format!("the interface `{}` stands twice", value.name);
            report.add_repeated(spot, first, &what, "remove one of them");
        }
    }
    if let (Err(problem), Some(last)) = (interface::check_count(located.len()), located.last()) {
        report.add(&last.spot, problem);
    }
    located.iter().map(|at| at.value.clone()).collect()
}

fn sorted(prefixes: &[At<Prefix>]) -> Vec<Prefix> {
    let mut prefixes = values(prefixes);
    prefixes.sort_unstable();
    prefixes
}

fn values<T: Clone>(located: &[At<T>]) -> Vec<T> {
    located.iter().map(|at| at.value.clone()).collect()
}

fn value_or_default<T: Clone + Default>(located: Option<&At<T>>) -> T {
    located.map(|at| at.value.clone()).unwrap_or_default()
}
