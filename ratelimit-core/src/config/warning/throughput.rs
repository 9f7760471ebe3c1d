//! Limits of bytes that slow TCP down.

use crate::{
    class::Catalogue,
    config::{
        limit::Group,
        model::Config,
        report::{At, Report},
    },
    limit::{LimitSpec, throughput::problem},
};

/// Reports those of a file.
pub fn find(group: &Group<'_>, classes: &Catalogue, warnings: &Report) {
    for At { value, spot } in group.limits.iter().copied() {
        if let Some(problem) = problem(value, classes) {
            warnings.add(spot, problem);
        }
    }
}

/// A line for each of those that a configuration has.
pub fn lines(config: &Config) -> Vec<String> {
    let lines = limits(config).into_iter().flat_map(|(title, limits)| {
        limits.iter().filter_map(move |limit| {
            let problem = problem(limit, &config.classes)?;
            Some(format!("{title}: {}: {}", problem.message, problem.hint))
        })
    });
    lines.collect()
}

/// All limits, by what messages call what has them.
fn limits(config: &Config) -> Vec<(String, &[LimitSpec])> {
    let default = (
        "[policy.default]".to_owned(),
        &*config.default_policy.limits,
    );
    let policies = config.policies.iter();
    let policies = policies.map(|(name, policy)| (format!("[policy.{name}]"), &*policy.limits));
    let levels = config.aggregate.ipv4.iter().chain(&config.aggregate.ipv6);
    let levels = levels.map(|it| (format!("[subnet] /{}", it.prefix), &*it.limits));
    let destinations = config
        .destinations
        .iter()
        .flat_map(|(prefix, destination)| {
            let title = format!("[destination.\"{prefix}\"]");
            let further = (title.clone(), &*destination.source_limits);
            [(title, &*destination.limits), further]
        });
    let interfaces = config.interfaces.iter().filter_map(|interface| {
        let node = interface.node.as_ref()?;
        Some((format!("interface {}", interface.name), &*node.limits))
    });
    [default]
        .into_iter()
        .chain(policies)
        .chain(levels)
        .chain(destinations)
        .chain(interfaces)
        .chain([("[node]".to_owned(), &*config.node.limits)])
        .collect()
}
