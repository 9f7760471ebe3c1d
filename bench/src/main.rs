//! The benchmark: the cost of a packet, as a ratio to an empty program at the end of the same
//! harness.
//!
//! `cargo xtask bench` builds the harness and runs this as root.

#[path = "../../bench-ebpf/src/draw.rs"]
mod draw;
#[path = "../../bench-ebpf/src/pace.rs"]
mod pace;

mod arguments;

mod catalog;
mod client;
mod compare;
mod control;
mod document;
mod goal;
mod goodput;
mod hand_written;
mod harness;
mod installation;
mod keys;
mod lists;
mod live;
mod machine;
mod measure;
mod placement;
mod plot;
mod reads;
mod report;
mod scenario;
mod server;
mod statistics;
mod store;
mod table;
mod tcp;
mod traffic;
mod wrk;

use std::{fs, process::ExitCode};

use anyhow::{Context, Result, ensure};
use arguments::Arguments;
use clap::Parser;
use jiff::Timestamp;
use machine::Machine;
use measure::Bench;
use ratelimit_tests::{Lab, skip};
use report::Report;
use scenario::{Case, Scenario};
use store::Store;

// SAFETY: plain numbers without padding.
unsafe impl aya::Pod for draw::Draw {}
// SAFETY: numbers without gaps between them.
unsafe impl aya::Pod for pace::Pace {}

fn main() -> ExitCode {
    run(&Arguments::parse()).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    // Read before hours are spent.
    let before = arguments.compare.as_deref().map(Report::read).transpose()?;
    ensure!(skip::is_root(), "loading programs needs root");
    if arguments.control {
        let object = fs::read(&arguments.harness)?;
        control::measure(&object, &Lab::new()?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.reads {
        let object = fs::read(&arguments.harness)?;
        reads::measure(&object, &Lab::new()?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.keys {
        keys::measure(arguments.rounds)?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.goodput {
        let object = fs::read(&arguments.harness)?;
        goodput::measure(&object, arguments)?;
        return Ok(ExitCode::SUCCESS);
    }
    let report = match &arguments.report {
        Some(path) => Report::read(path)?,
        None => measure(arguments)?,
    };
    print!("{}", table::render(&report, |_| true));
    if !report.tcp.is_empty() {
        print!("\n{}", tcp::render(&report.tcp));
    }
    if let Some(path) = &arguments.json {
        report.write(path)?;
    }
    if arguments.write {
        document::write(&report)?;
    }
    let Some(before) = before else {
        return Ok(ExitCode::SUCCESS);
    };
    let slower = compare::slower(&before, &report);
    for change in &slower {
        println!("slower: {}", change.phrase());
    }
    if slower.is_empty() {
        println!("nothing got slower by more than 10 % since {}", before.date);
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::FAILURE)
}

fn measure(arguments: &Arguments) -> Result<Report> {
    let object = fs::read(&arguments.harness)
        .with_context(|| format!("reading the harness {}", arguments.harness.display()))?;
    let lab = Lab::new()?;
    let bench = Bench {
        object: &object,
        lab: &lab,
        effort: arguments.effort(),
    };
    let scenarios: Vec<_> = Store::ALL
        .into_iter()
        .flat_map(catalog::scenarios)
        .collect();
    let xdp_firewall = arguments.xdp_firewall.as_deref();
    let mut report = Report {
        machine: Machine::this()?,
        others: live::versions(xdp_firewall),
        date: Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string(),
        command: arguments.command(),
        packets: bench.effort.packets,
        rounds: bench.effort.rounds,
        rows: vec![],
        live: vec![],
        tcp: vec![],
        skipped: vec![],
    };
    for scenario in &scenarios {
        let is_wanted = |case: &Case, name: &str| arguments.wants(case.is_core, name);
        bench.measure(scenario, is_wanted, &mut report)?;
    }
    hand_written::measure(
        &bench,
        |is_core, name| arguments.wants(is_core, name),
        &mut report,
    )?;
    let is_wanted = |name: &str| arguments.wants(false, name);
    live::measure(
        &object,
        arguments.live_effort(),
        is_wanted,
        xdp_firewall,
        &mut report,
    )?;
    tcp::measure(arguments.rounds, is_wanted, &mut report)?;
    ensure!(
        !(report.rows.is_empty()
            && report.live.is_empty()
            && report.tcp.is_empty()
            && report.skipped.is_empty()),
        "no case has such a name: leave --filter out to see all names"
    );
    report.set_goals(scenarios.iter().flat_map(goals));
    Ok(report)
}

/// The goals of the cases, by name.
fn goals(scenario: &Scenario) -> impl Iterator<Item = (String, &goal::Goal)> {
    let cases = scenario.cases.iter();
    cases.filter_map(|case| Some((scenario.name_of(case), case.goal.as_ref()?)))
}
