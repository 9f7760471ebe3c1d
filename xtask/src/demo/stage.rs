//! Everything that the parts of the demo play with. Dropping it removes everything that was made.

use std::{env, path::Path};

use anyhow::Result;

use super::{
    daemon::Daemon,
    figures::Figures,
    lab::{self, INTERFACE, Lab},
    rlctl::Rlctl,
    scratch::Scratch,
    screen::Screen,
    tap::Tap,
    wire::Wire,
};

/// The stage. Its fields are dropped in this order: the network last.
pub struct Stage {
    /// What is shown.
    pub screen: Screen,
    /// What was checked.
    pub figures: Figures,
    /// The end that sends.
    pub wire: Wire,
    /// The end that receives.
    pub tap: Tap,
    /// The daemon's command line.
    pub rlctl: Rlctl,
    daemon: Daemon,
    /// The network.
    pub lab: Lab,
}

impl Stage {
    /// Builds the network and starts the daemon, of which `binaries` is the directory.
    pub fn set(binaries: &Path, screen: Screen) -> Result<Self> {
        let lab = Lab::build()?;
        let files = Scratch::create(env::temp_dir().join(lab::name("files")))?;
        let mut daemon = Daemon::start(&binaries.join("ratelimitd"), &lab, files)?;
        let rlctl = Rlctl {
            program: binaries.join("rlctl"),
            socket: daemon.socket(),
        };
        let mode = daemon.wait_until_ready(&rlctl)?;
        println!("\nratelimitd is ready: {INTERFACE} attached, {mode} mode");
        Ok(Self {
            screen,
            figures: Figures::default(),
            wire: Wire::open(&lab)?,
            tap: Tap::open(&lab)?,
            rlctl,
            daemon,
            lab,
        })
    }

    /// Takes everything down, and answers what was found.
    pub fn strike(self) -> Result<Figures> {
        self.tap.close()?;
        self.daemon.stop()?;
        Ok(self.figures)
    }
}
