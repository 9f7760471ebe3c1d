//! Whether what the files say fits together.

mod classes;
mod shared;

use std::collections::BTreeMap;

use super::{
    ban, bans, destination,
    detection::{FORGEABLE_DEFAULT, PER_MINUTE_DEFAULT},
    document::Document,
    file::File,
    history, interface, limit,
    list::ListConfig,
    model::{AggregateConfig, Config, Interface, NodeConfig, PolicyConfig},
    new_sources,
    policy::{self, Policy},
    prefixes::{self, Places},
    report::{At, Report, values},
};
use crate::{detection::Rules, diagnostic::Problem, policies::list_name, prefix::Prefix};

/// The defaults, apart from interfaces and the default policy.
pub fn defaults() -> Config {
    validate(&[], &Document::default(), &Report::new(&[]))
}

/// The configuration that `document` is. It counts only when nothing was reported.
pub fn validate(files: &[File], document: &Document, report: &Report) -> Config {
    let mut places = Places::default();
    for policy in &document.policies {
        places.enter(&policy.title, &policy.sources, report);
    }
    Places::default().enter("[allow]", &document.allow, report);
    prefixes::check_protected(&document.protected, report);
    interface::check_policies(&document.interfaces, &document.policies, report);
    interface::check_challenge(&document.interfaces, document.challenge.as_ref(), report);
    policy::drops::check_interfaces(&document.interfaces, &document.policies, report);
    let mut policies = policies(&document.policies, report);
    let default_policy = policies.remove(policy::DEFAULT);
    if default_policy.is_none() {
        report.add_absent(Problem::new(
            "no [policy.default]",
            "write limits = [] there if sources without a policy are to be unlimited",
        ));
    }
    for policy in &document.policies {
        let title = format!("`established` of {}", policy.title);
        limit::refuse_shared(&title, &policy.established, report);
        let counted = policy.connections.as_ref();
        if let Some(connections) = counted.filter(|_| !policy.has_sources) {
            let message = format!(
                "`connections` of {} has no effect: an interface has none of its own",
                policy.title
            );
            let hint = "write it in [policy.default], or in a policy with `sources`";
            report.add(&connections.spot, Problem::new(message, hint));
        }
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
    let bans = document.bans.as_ref();
    let fold = bans.and_then(|at| at.value.fold(&source, report));
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
        forgeable_per_minute: detection
            .map_or(FORGEABLE_DEFAULT, |at| at.value.forgeable_per_minute),
        attacks: detection.map_or_else(Rules::new, |at| at.value.attacks.clone()),
        ban_for: bans.map_or(Some(bans::DEFAULT), |at| at.value.length),
        fold,
        report: detection.is_none_or(|at| at.value.report),
        allow: sorted(&document.allow),
        protected: sorted(&document.protected),
        lists: lists(document, report),
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
        snapshot: value_or_default(document.snapshot.as_ref()),
        crowdsec: document.crowdsec.as_ref().map(|at| at.value.clone()),
        cluster: document.cluster.as_ref().map(|at| at.value.clone()),
        upstream: document.upstream.as_ref().map(|at| at.value.clone()),
        keys: {
            let cluster = document.cluster.as_ref();
            let nodes = cluster.map_or(1, |at| at.value.nodes);
            document.keys.compile(nodes, report)
        },
    }
}

fn policies(located: &[Policy], report: &Report) -> BTreeMap<String, PolicyConfig> {
    report.find_repeated(
        located
            .iter()
            .map(|policy| (policy.title.as_str(), &policy.spot)),
        |title| format!("{title} is defined twice"),
        "make them one, or give one another name",
    );
    let compiled = located.iter().map(|policy| {
        let compiled = PolicyConfig {
            sources: sorted(&policy.sources),
            limits: values(&policy.limits),
            drops: policy.drops,
            observe: policy.observe,
            ban: policy.ban.as_ref().map(|ban| ban.value),
            established: values(&policy.established),
            connections: policy.connections.as_ref().map(|at| at.value),
        };
        (policy.name.clone(), compiled)
    });
    compiled.collect()
}

/// Returns the lists, and the databases of policies.
fn lists(document: &Document, report: &Report) -> BTreeMap<String, ListConfig> {
    let located = &document.lists;
    report.find_repeated(
        located
            .iter()
            .map(|it| (it.name.value.as_str(), &it.name.spot)),
        |name| format!("[list.{name}] is defined twice"),
        "give one of them another name",
    );
    let named = located
        .iter()
        .map(|it| Some((it.name.value.clone(), it.list.clone()?)));
    let policies = document.policies.iter();
    let of_policies =
        policies.filter_map(|policy| Some((list_name(&policy.name), policy.database.clone()?)));
    named.flatten().chain(of_policies).collect()
}

fn interfaces(located: &[Option<interface::Located>], report: &Report) -> Vec<Interface> {
    if located.is_empty() {
        report.add_absent(Problem::new(
            "no interface",
            "write [[interface]], and under it name = \"eth0\"",
        ));
    }
    let located = located.iter().flatten();
    let located: Vec<&At<Interface>> = located.map(|it| &it.interface).collect();
    report.find_repeated(
        located.iter().map(|at| (at.value.name.as_str(), &at.spot)),
        |name| format!("duplicate interface `{name}`"),
        "remove one of them",
    );
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

fn value_or_default<T: Clone + Default>(located: Option<&At<T>>) -> T {
    located.map(|at| at.value.clone()).unwrap_or_default()
}
