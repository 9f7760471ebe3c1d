//! Attack detection: a pure core without clock or I/O. It turns samples and time into findings.
//!
//! Time is divided into windows of a second. Each counts the packets that the samples represent by
//! target, source and subnet, in memory that forged packets cannot exhaust. At its end each enabled
//! kind of attack is evaluated.

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
mod share;
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
