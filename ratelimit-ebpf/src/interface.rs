//! The interface that this instance of the program is attached to.

use ratelimit_common::{
    Settings,
    features::{self, Feature},
    layout::link_layer,
    parse::LinkLayer,
};

use crate::{constant::Constant, maps::INTERFACES};

#[unsafe(no_mangle)]
static INTERFACE: Constant<u32> = Constant::new(0);

#[inline(always)]
pub fn slot() -> u32 {
    INTERFACE.get()
}

#[unsafe(no_mangle)]
static FIRST_COUNTER: Constant<u32> = Constant::new(0);

#[inline(always)]
pub fn first_counter() -> u32 {
    FIRST_COUNTER.get()
}

/// The settings for packets on this interface. Computed in a subprogram, because here it would take
/// stack space from all packets.
#[inline(always)]
pub fn settings(all: Settings) -> Settings {
    if all.has_interfaces() {
        settings_here(all)
    } else {
        all
    }
}

subprograms! {
    fn settings_here(all: Settings) -> Settings {
        let rules = INTERFACES.get(slot());
        rules.map_or(all, |rules| all.on(*rules.of(all.generation())))
    }
}

/// One of the constants of [`link_layer`](ratelimit_common::layout::link_layer). The verifier knows
/// its value, so Ethernet interfaces pay nothing for the others.
#[unsafe(no_mangle)]
static LINK_LAYER: Constant<u32> = Constant::new(link_layer::ETHERNET);

#[inline(always)]
pub fn link_layer() -> LinkLayer {
    if features::is_enabled::<{ Feature::NoEthernet as u8 }>() {
        LinkLayer::from_number(LINK_LAYER.get())
    } else {
        LinkLayer::Ethernet
    }
}
