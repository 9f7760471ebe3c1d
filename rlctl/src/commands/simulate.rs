//! `rlctl simulate`: shows which packets of a capture a configuration would drop. It needs no
//! daemon.

mod answer;
mod text;

use std::{path::Path, time::Duration};

use ratelimit_core::{
    capture::{Capture, CaptureError},
    config::{self, Interface},
    list_file,
    simulation::{Configured, Simulation, TooManyIntervals, answer::Answer},
};
use rustix::time::ClockId;

use crate::{
    clock,
    commands::config::wrong,
    failure::Failure,
    input::Input,
    output::{printable, printable_lines},
    report::Report,
    simulate_arguments::SimulateArguments,
};

/// Reads the capture through both configurations. It ends as refused, and with an answer, when the
/// capture ends too early.
pub fn run(arguments: &SimulateArguments) -> Result<Report, Failure> {
    let (new, mut notes) = load(&arguments.config)?;
    let old = arguments.compare.as_deref().map(load).transpose()?;
    let (old, old_notes) = old.map_or((None, vec![]), |(old, notes)| (Some(old), notes));
    notes.extend(old_notes);
    let mut simulation = Simulation::new(new, old, arguments.interval)
        .map_err(|error| Failure::refused(error.to_string()))?;
    let input = Input::open(&arguments.capture)?;
    let name = input.name().to_owned();
    let mut capture = Capture::open(input).map_err(|error| no_capture(&name, &error))?;
    let format = capture.format();
    let ended = capture.read(|packet| Ok(simulation.packet(packet)?));
    simulation.finish();
    let answer = simulation.answer(arguments.rows);
    let broken = match ended {
        Ok(()) => None,
        Err(Stopped::Intervals(error)) => return Err(Failure::usage(error.to_string())),
        Err(Stopped::Capture(error)) if answer.packets == 0 => {
            return Err(no_capture(&name, &error));
        }
        Err(Stopped::Capture(error)) => Some(error),
    };
    drop(capture);
    let json = answer::json(arguments, &name, format, &answer, broken.as_ref());
    notes.extend(text::notes(&answer));
    let text = text::render(&name, arguments, &answer);
    let mut report = Report::from_json(json, text).notes(notes);
    report.failure = broken.map(|error| half_read(&name, &error, &answer));
    Ok(report)
}

/// The reason no further packets are read.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
enum Stopped {
    Capture(#[from] CaptureError),
    Intervals(#[from] TooManyIntervals),
}

/// A configuration with its lists, what in it is probably not meant, and the lists that cannot be
/// read.
fn load(file: &Path) -> Result<(Configured, Vec<String>), Failure> {
    let (config, warnings) =
        config::inspect(file).map_err(|error| wrong(file, &error.to_string()))?;
    let mut notes: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    let mut lists = Vec::new();
    for (name, list) in &config.lists {
        match list_file::read(list, clock::wall()) {
            Ok(reading) => lists.push((name.clone(), reading)),
            Err(refused) => notes.push(format!(
                "skipping list {name}: {}",
                printable_lines(refused.in_full())
            )),
        }
    }
    let tick = rustix::time::clock_getres(ClockId::MonotonicCoarse);
    let tick = Duration::try_from(tick).unwrap_or_default();
    notes.extend(config.interfaces.iter().filter_map(own_rule));
    Ok((
        Configured {
            config,
            lists,
            tick,
        },
        notes,
    ))
}

/// A capture does not say by which interface its packets came.
fn own_rule(interface: &Interface) -> Option<String> {
    let has_rule = interface.policy.is_some() || interface.node.is_some() || interface.observe;
    has_rule.then(|| {
        let name = printable(&interface.name);
        format!(
            "packets are judged as on an interface without `policy`, `node` and `observe`; those \
             of {name} are ignored"
        )
    })
}

fn no_capture(name: &str, error: &CaptureError) -> Failure {
    Failure::refused(format!(
        "cannot read any packet of {}: {error}",
        printable(name)
    ))
}

fn half_read(name: &str, error: &CaptureError, answer: &Answer) -> Failure {
    let name = printable(name);
    let packets = answer.packets;
    Failure::refused(format!("{name} ends early: {error}")).hint(format!(
        "the result covers the {packets} packets before that"
    ))
}
