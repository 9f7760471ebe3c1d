//! The challenge of sources, as people say it.

use std::{fmt, num::NonZeroU32, time::Duration};

use ratelimit_common::challenge::Rules;

use crate::quantity;

/// When sources that ask for TCP connections have to prove themselves.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TcpChallenge {
    /// Beyond how many connections that are asked for in a second; `None` is always.
    pub over: Option<NonZeroU32>,
    /// How long a source stays verified.
    pub lasts: Duration,
    /// Answers in a second, to all sources together.
    pub answers: NonZeroU32,
    /// What they answer.
    pub way: Way,
}

/// What a SYN of a source that is not verified is answered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// A wrong acknowledgement, which the source resets.
    Rst,
    /// A cookie of the listener, where there is one that gives one.
    Syncookie,
}

impl Way {
    /// Each of them.
    pub const ALL: [Self; 2] = [Self::Rst, Self::Syncookie];

    /// Its name, as it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rst => "rst",
            Self::Syncookie => "syncookie",
        }
    }
}

impl TcpChallenge {
    /// The rules as the datapath reads them, where `cpus` CPUs draw shares.
    ///
    /// # Panics
    ///
    /// When a number is none that the configuration takes.
    #[must_use]
    pub fn compile(&self, cpus: u32) -> Rules {
        let rules = Rules::new(self.over, self.lasts, self.answers, cpus);
        let rules = rules.expect("the configuration refuses more");
        rules.asking_listeners(self.way == Way::Syncookie)
    }

    /// When it is on, as it is written.
    #[must_use]
    pub fn when(&self) -> String {
        match self.over {
            Some(over) => format!("over {over} syn/s"),
            None => "always".to_owned(),
        }
    }
}

impl fmt::Display for TcpChallenge {
    /// `over 5000 syn/s, by rst, for 10m, at most 100000 answers a second`
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (when, lasts) = (self.when(), quantity::duration(self.lasts));
        write!(
            formatter,
            "{when}, by {}, for {lasts}, at most {} answers a second",
            self.way.name(),
            self.answers
        )
    }
}
