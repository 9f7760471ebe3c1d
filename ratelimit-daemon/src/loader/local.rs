//! The loader in the process that asks it.

use std::path::Path;

use anyhow::Context;

use super::{
    Attachment, Descriptors, Detachment, Held, InterfacePlan, Loader, MapPlan, compact, link,
    load::{self, Seeds},
    logs,
    pins::Pins,
    room,
};

/// Does it itself, so it needs the capabilities.
#[derive(Default)]
pub struct Local {
    pins: Option<Pins>,
    maps: Option<(MapPlan, Seeds)>,
}

impl Local {
    fn pins(&self) -> anyhow::Result<&Pins> {
        self.pins.as_ref().context("no directory of pins is open")
    }
}

impl Loader for Local {
    fn open(&mut self, root: &Path) -> anyhow::Result<Held> {
        let pins = self.pins.insert(Pins::open(root)?);
        let links = pins.all_links()?.into_iter();
        Ok(Held {
            interfaces: links.map(|pin| (pin.interface, pin.slot)).collect(),
            table: compact::held_table(pins)?,
        })
    }

    fn open_maps(&mut self, plan: &MapPlan) -> anyhow::Result<Descriptors> {
        let pins = self.pins()?;
        let object = load::object(plan)?;
        logs::require_memory(&object, plan, pins)?;
        room::require(&object, plan, pins)?;
        compact::remove_mismatched(&object, pins)?;
        pins.remove_mismatched(&object)?;
        logs::make(&object, pins)?;
        let seeds = compact::seeds(pins)?;
        let maps = load::maps(&object, pins, plan, seeds)?;
        self.maps = Some((*plan, seeds));
        Ok(maps)
    }

    fn attach(&mut self, plan: &InterfacePlan) -> anyhow::Result<Attachment> {
        let pins = self.pins()?;
        let (maps, seeds) = self.maps.as_ref().context("no maps are open")?;
        let links = pins.all_links()?;
        let pin = links.iter().find(|pin| pin.interface == plan.name);
        let object = load::object(maps)?;
        let mut program = load::program(&object, plan, pin, pins, maps, *seeds)
            .with_context(|| format!("loading the program for {}", plan.name))?;
        let frags = program.frags();
        let attachment = link::attach(program.xdp()?, plan, frags, pins, pin)?;
        pins.remove_unused_layouts()?;
        Ok(attachment)
    }

    fn detach(&mut self, interface: &str) -> anyhow::Result<bool> {
        let pins = self.pins()?;
        let mut is_pinned = false;
        for pin in pins.all_links()? {
            if pin.interface == interface {
                link::detach(&pin)?;
                is_pinned = true;
            }
        }
        pins.remove_unused_layouts()?;
        Ok(is_pinned)
    }

    fn detach_all(&mut self) -> anyhow::Result<Detachment> {
        let pins = self.pins()?;
        let mut interfaces = Vec::new();
        for pin in pins.all_links()? {
            link::detach(&pin)?;
            interfaces.push(pin.interface);
        }
        pins.remove_all()?;
        Ok(Detachment { interfaces })
    }
}
