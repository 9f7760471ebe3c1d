//! A configuration without a file: `ratelimitd --interface eth0 --packets 1000 --per 1s`.

use std::time::Duration;

use super::{
    error::ConfigError,
    interface, limit,
    model::{Config, Interface, Mode, PolicyConfig},
    validate::defaults,
};
use crate::{
    diagnostic::{Diagnostic, Problem},
    limit::{Counting, LimitSpec, LimitUnit},
    quantity,
};

/// Options that replace the configuration file.
#[derive(Clone, Debug, Default, Eq, PartialEq, clap::Args)]
pub struct Arguments {
    /// Interface to protect. Repeat it for several
    #[arg(long = "interface", value_name = "NAME")]
    pub interfaces: Vec<String>,

    /// Packets that each source may send in a window
    #[arg(long, value_name = "N")]
    pub packets: Option<u64>,

    /// Bytes that each source may send in a window: 1500, 50MB, 64KiB
    #[arg(long, value_name = "SIZE")]
    pub bytes: Option<String>,

    /// The window: 10ms, 1s, 1m, 31d
    #[arg(long, value_name = "DURATION")]
    pub per: Option<String>,

    /// Dry run: count what would be dropped, and let it pass
    #[arg(long)]
    pub observe: bool,
}

/// The configuration that `arguments` are. Packets and bytes together are two limits.
pub fn from_command_line(arguments: &Arguments) -> Result<Config, ConfigError> {
    let mut problems = vec![];
    let interfaces = interfaces(&arguments.interfaces, &mut problems);
    let limits = limits(arguments, &mut problems);
    if !problems.is_empty() {
        return Err(ConfigError::new(problems));
    }
    Ok(Config {
        interfaces,
        default_policy: PolicyConfig {
            limits,
            ..PolicyConfig::default()
        },
        observe: arguments.observe,
        ..defaults()
    })
}

fn interfaces(names: &[String], problems: &mut Vec<Diagnostic>) -> Vec<Interface> {
    if names.is_empty() {
        problems.push(of_option(
            "--interface",
            "is missing",
            "add `--interface eth0`",
        ));
    }
    for (index, name) in names.iter().enumerate() {
        let option = format!("--interface {name}");
        if let Err(problem) = interface::check_name(name) {
            problems.push(of_option(&option, &problem.message, problem.hint));
        } else if names[..index].contains(name) {
            problems.push(of_option(&option, "is given twice", "remove one of them"));
        }
    }
    if let Err(problem) = interface::check_count(names.len()) {
        problems.push(of_option("--interface", &problem.message, problem.hint));
    }
    let wanted = |name: &String| Interface {
        name: name.clone(),
        mode: Mode::default(),
        jumbo: false,
        next: None,
        policy: None,
        node: None,
        observe: false,
    };
    names.iter().map(wanted).collect()
}

fn limits(arguments: &Arguments, problems: &mut Vec<Diagnostic>) -> Vec<LimitSpec> {
    let packets = arguments
        .packets
        .map(|packets| (packets, LimitUnit::Packets));
    let bytes = arguments.bytes.as_deref().and_then(|text| {
        let bytes = quantity::parse_bytes(text).map_err(Problem::from);
        let bytes = accept(&format!("--bytes {text}"), bytes, problems);
        bytes.map(|bytes| (bytes, LimitUnit::Bytes))
    });
    if arguments.packets.is_none() && arguments.bytes.is_none() {
        let hint = "add `--packets 1000` or `--bytes 50MB`";
        problems.push(of_option("--packets", "is missing", hint));
    }
    let Some(per) = &arguments.per else {
        problems.push(of_option("--per", "is missing", "add `--per 1s`"));
        return vec![];
    };
    let window = limit::parse_window(per);
    let Some(window) = accept(&format!("--per {per}"), window, problems) else {
        return vec![];
    };
    let amounts = packets.into_iter().chain(bytes);
    amounts
        .filter_map(|(amount, unit)| limit(amount, unit, window, arguments, problems))
        .collect()
}

fn limit(
    amount: u64,
    unit: LimitUnit,
    window: Duration,
    arguments: &Arguments,
    problems: &mut Vec<Diagnostic>,
) -> Option<LimitSpec> {
    let algorithm = Counting::default().of(amount, unit, window);
    let error = match algorithm.and_then(|it| LimitSpec::new(amount, unit, window, it)) {
        Ok(limit) => return Some(limit),
        Err(error) => error,
    };
    let option = match unit {
        LimitUnit::Packets => format!("--packets {amount}"),
        LimitUnit::Bytes => format!("--bytes {}", arguments.bytes.as_deref().unwrap_or_default()),
    };
    let problem = limit::explain(&error, unit, window);
    accept(&option, Err(problem), problems)
}

fn accept<T>(
    option: &str,
    result: Result<T, Problem>,
    problems: &mut Vec<Diagnostic>,
) -> Option<T> {
    result
        .map_err(|problem| problems.push(of_option(option, &problem.message, problem.hint)))
        .ok()
}

fn of_option(option: &str, message: &str, hint: impl AsRef<str>) -> Diagnostic {
    Diagnostic {
        file: None,
        position: None,
        problem: Problem::new(format!("{option}: {message}"), hint),
    }
}
