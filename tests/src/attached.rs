//! The program that a daemon has loaded, on the maps that it has filled, run on frames by
//! `BPF_PROG_TEST_RUN`.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use aya::{
    maps::{Array, Map, MapData, MapInfo},
    programs::{TestRun, TestRunOptions, Xdp, loaded_programs},
};
use aya_obj::programs::XdpAttachType;
use ratelimit_common::{Settings, layout};

use crate::service::Service;

/// The program of a daemon. A change of the features in use replaces it, so it is looked for each
/// time.
pub struct Attached {
    /// The number of the map of its settings.
    settings: u32,
}

impl Attached {
    /// The newest program on the maps of `service`: one that was replaced may live on for a moment.
    pub fn of(service: &Service) -> Result<Self> {
        let settings = map(service, "SETTINGS")?.id();
        Ok(Self { settings })
    }

    fn newest(&self) -> Result<Xdp> {
        let programs = loaded_programs().filter_map(Result::ok);
        let ours = programs.filter(|program| {
            let maps = program.map_ids().ok().flatten();
            maps.is_some_and(|maps| maps.contains(&self.settings))
        });
        let newest = ours
            .max_by_key(aya::programs::ProgramInfo::id)
            .context("no program is on these maps")?;
        let xdp = Xdp::from_program_info(newest, layout::PROGRAM.into(), XdpAttachType::Interface);
        Ok(xdp?)
    }

    /// The name of the program.
    pub fn name(&self) -> Result<String> {
        let info = self.newest()?.info()?;
        Ok(info.name_as_str().context("no name")?.to_owned())
    }

    /// The size of its instructions as the verifier left them.
    pub fn bytes(&self) -> Result<u32> {
        self.newest()?.info()?.size_translated().context("no size")
    }

    /// The program that runs now, for as many packets that to look for it each time would take
    /// longer than they do.
    pub fn now(&self) -> Result<Now> {
        self.newest().map(Now)
    }

    /// Whether the program lets a frame pass now.
    pub fn passes(&self, frame: &[u8]) -> Result<bool> {
        passes(&self.newest()?, frame)
    }

    /// Returns how many of `frames` frames pass.
    pub fn passed(&self, frame: &[u8], frames: usize) -> Result<usize> {
        let program = self.newest()?;
        let answers = (0..frames).map(|_| passes(&program, frame));
        let answers: Vec<bool> = answers.collect::<Result<_>>()?;
        Ok(answers.into_iter().filter(|passes| *passes).count())
    }
}

/// A program, as long as nothing replaces it.
pub struct Now(Xdp);

impl Now {
    /// Whether it lets a frame pass.
    pub fn passes(&self, frame: &[u8]) -> Result<bool> {
        passes(&self.0, frame)
    }
}

fn passes(program: &Xdp, frame: &[u8]) -> Result<bool> {
    const XDP_DROP: u32 = 1;
    const XDP_PASS: u32 = 2;
    let options = TestRunOptions {
        data_in: Some(frame),
        ..TestRunOptions::default()
    };
    let answer = program.test_run(options)?.return_value;
    ensure!(
        [XDP_DROP, XDP_PASS].contains(&answer),
        "the program answered {answer}"
    );
    Ok(answer == XDP_PASS)
}

/// Returns the kernel's information about a map of `service`.
pub fn map(service: &Service, name: &str) -> Result<MapInfo> {
    Ok(MapInfo::from_pin(pin(service, name))?)
}

/// Returns the settings for all packets.
pub fn settings(service: &Service) -> Result<Settings> {
    let map = Map::Array(MapData::from_pin(pin(service, "SETTINGS"))?);
    Ok(Array::try_from(map)?.get(&0, 0)?)
}

/// The pin of a map of `service`.
pub fn pin(service: &Service, name: &str) -> PathBuf {
    let layout = format!("v{}", layout::VERSION);
    service.pins().join(layout).join("maps").join(name)
}
