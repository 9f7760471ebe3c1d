//! Attacks, named: a pure core without clock or I/O. Samples and time come in, findings come out.
//!
//! Time goes in windows of a second. In each, what the samples stand for is counted by target, by source and by subnet, in
//! bounded memory whatever is forged. At its end each kind of attack that is looked for is judged.

mod attack;
mod content;
mod countermeasure;
mod detector;
mod distinct;
mod evidence;
mod host;
mod kind;
mod recent;
mod rule;
mod sample;
mod sending;
mod space_saving;
mod suspicion;
#[cfg(test)]
mod tests;
mod window;

pub use self::{
    attack::{Attack, Subject},
    countermeasure::{Countermeasure, against, toml},
    detector::{Detector, Step},
    host::Host,
    kind::Kind,
    rule::{ABOVE_MAX, Answer, Rule, Rules},
    sample::{Sample, headers},
    sending::Sending,
};
