//! Protected addresses, which no ban may cover.

use std::{collections::BTreeSet, net::IpAddr};

use ratelimit_core::prefix::Prefix;

use super::Command;
use crate::{control::controller::Controller, protected::Protected};

/// Replaces the protected addresses found on this host.
pub struct Protect(pub Protected);

impl Command for Protect {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self(found) = self;
        let before = connected_networks(controller);
        controller
            .state
            .protect(|protection| protection.find(found));
        let networks = &before ^ &connected_networks(controller);
        controller
            .feeds
            .list_files
            .networks_changed(&controller.state.intent, &networks);
    }
}

fn connected_networks(controller: &Controller) -> BTreeSet<Prefix> {
    controller.state.protection.all().networks().collect()
}

/// Protects the client of the SSH session in which a command was typed.
pub struct ProtectSshPeer(pub IpAddr);

impl Command for ProtectSshPeer {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self(peer) = self;
        controller
            .state
            .protect(|protection| protection.note_ssh_peer(peer));
    }
}
