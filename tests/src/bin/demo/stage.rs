//! Everything that the parts of the demo play with. Dropping it removes everything that was made.

use anyhow::{Context, Result, ensure};
use ratelimit_tests::{
    Lab,
    lab::INTERFACE,
    service::{Said, Service},
};
use serde_json::Value;

use super::{figures::Figures, plan, screen::Screen, tap::Tap, wire::Wire};

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
    /// The daemon.
    pub service: Service,
    /// The network.
    pub lab: Lab,
}

impl Stage {
    /// Builds the network and starts the daemon.
    pub fn set(screen: Screen) -> Result<Self> {
        let lab = Lab::new()?;
        let service = Service::started(&lab, &plan::configuration())?;
        let status: Value = serde_json::from_str(&service.rlctl_ok(&["status", "--json"])?)?;
        let mode = status["interfaces"][0]["mode"].as_str();
        let mode = mode.with_context(|| format!("ratelimitd is not attached: {status}"))?;
        println!("\nratelimitd is ready: {INTERFACE} attached, {mode} mode");
        Ok(Self {
            screen,
            figures: Figures::default(),
            wire: Wire::open(&lab)?,
            tap: Tap::open(&lab)?,
            service,
            lab,
        })
    }

    /// Shows a command of `rlctl` and what it answers. It has to end with `code`.
    pub fn type_in(&self, arguments: &[&str], code: i32) -> Result<()> {
        let typed = format!("rlctl {}", arguments.join(" "));
        println!("$ {typed}");
        let said @ Said { stdout, stderr, .. } = &self.service.rlctl(arguments)?;
        print!("{stdout}");
        eprint!("{stderr}");
        ensure!(
            said.code == code,
            "`{typed}` ended with {}, and should have ended with {code}",
            said.code
        );
        Ok(())
    }

    /// Takes everything down, and answers what was found.
    pub fn strike(mut self) -> Result<Figures> {
        self.tap.close()?;
        self.service.stop("-TERM")?;
        Ok(self.figures)
    }
}
