//! The queues of an interface: whether they spread packets over the CPUs, and the rules of drivers
//! for XDP.

use ratelimit_interface::{self as interface, AttachMode, InterfaceState};

use super::{
    device::{self, Device, Queues},
    finding::Finding,
};

const CHECK: &str = "queues";

/// A driver, and the reason for its rule.
struct Driver {
    name: &'static str,
    rule: Rule,
    why: &'static str,
}

/// The condition of a driver for XDP.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Rule {
    /// At most half of the queues are in use, as many to send as to receive.
    Half,
    /// There is a free queue for each possible CPU, to send what the program answers.
    Spare,
    /// There are at most this many possible CPUs.
    Cpus(u32),
    /// The other end has at most as many queues to send as this one to receive.
    Peer,
    /// The device merges no packets, which is another check. Queues do not matter.
    Unmerged,
    /// Nothing that it reports.
    Nothing,
}

/// The drivers with rules of their own, as of Linux 6.18.
const DRIVERS: [Driver; 9] = [
    Driver {
        name: "ena",
        rule: Rule::Half,
        // `ena_xdp_legal_queue_count`; `ena_set_channels` clears and sets the features.
        why: "ENA needs a second queue for each one in use: above half of the maximum it hides its \
              XDP support and refuses native mode",
    },
    Driver {
        name: "gve",
        rule: Rule::Half,
        // `gve_verify_xdp_configuration`.
        why: "gVNIC needs as many rx as tx queues, and a second tx queue for each: above half of \
              the maximum it refuses native mode",
    },
    Driver {
        name: "virtio_net",
        rule: Rule::Spare,
        // `virtnet_xdp_set`.
        why: "virtio-net has no free queue for each CPU, so challenge answers of all CPUs share \
              queues and their locks",
    },
    Driver {
        name: "hv_netvsc",
        rule: Rule::Nothing,
        // `netvsc_bpf`. The queues of its VF are examined in its place.
        why: "netvsc refuses native mode with LRO or a large MTU, and if its VF refuses it",
    },
    Driver {
        name: "mlx5_core",
        rule: Rule::Unmerged,
        // `mlx5e_set_xdp_feature`, `mlx5e_xdp_allowed`. Each channel has its own queue for XDP.
        why: "mlx5 hides its XDP support and refuses native mode while the card merges packets",
    },
    Driver {
        name: "ice",
        rule: Rule::Nothing,
        // `ice_vsi_determine_xdp_res`. It does not report the number that is free.
        why: "ice refuses native mode unless tx queues for half of the CPUs are free in the card",
    },
    Driver {
        name: "ixgbe",
        rule: Rule::Cpus(128),
        // `ixgbe_xdp_setup`: twice `IXGBE_MAX_XDP_QS`.
        why: "ixgbe refuses native mode with more than 128 possible CPUs: boot with nr_cpus=128 \
              or use generic mode",
    },
    Driver {
        name: "i40e",
        rule: Rule::Nothing,
        // `i40e_set_num_rings_in_vsi`.
        why: "i40e takes a second tx queue for each one in use",
    },
    Driver {
        name: "veth",
        rule: Rule::Peer,
        // `veth_xdp_set`.
        why: "veth refuses native mode if the other end has more tx queues than this one rx queues",
    },
];

/// An interface, as far as its queues are concerned.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    name: String,
    /// How it is called, if it is not the examined interface.
    of: Option<String>,
    driver: Option<String>,
    queues: Option<Queues>,
    /// The largest number of receive queues, for drivers that report no channels.
    receiving_max: u32,
    runs_native: bool,
    /// Whether the program sends packets.
    has_challenge: bool,
    cpus_online: u32,
    cpus_possible: u32,
    /// The other end of a veth pair.
    peer: Option<(String, Queues)>,
}

impl Subject {
    /// Returns the interface, or the VF that receives in its place on Azure.
    pub fn new(state: &InterfaceState, device: &Device, has_challenge: bool) -> Self {
        let this = Self::of_device(state, device.queues, has_challenge);
        if this.driver.as_deref() != Some("hv_netvsc") {
            return this;
        }
        let ports = interface::beneath(state).unwrap_or_default();
        let vf = ports.first().and_then(|name| interface::query(name).ok()?);
        vf.map_or(this, |vf| {
            let queues = device::read(&vf.name, vf.index)
                .ok()
                .and_then(|it| it.queues);
            let mut vf = Self::of_device(&vf, queues, has_challenge);
            vf.of = Some(format!("its VF {}", vf.name));
            vf
        })
    }

    fn of_device(state: &InterfaceState, queues: Option<Queues>, has_challenge: bool) -> Self {
        let device = state.device.as_ref();
        let driver = device.and_then(|(bus, device)| device::driver(bus, device).ok());
        let count = |cpus: usize| u32::try_from(cpus).unwrap_or(u32::MAX);
        let online = aya::util::online_cpus().map_or(1, |online| online.len());
        Self {
            name: state.name.clone(),
            of: None,
            driver: state.kind.clone().or(driver),
            queues,
            receiving_max: state.rx_queues_max,
            runs_native: matches!(state.program, Some((AttachMode::Native, _))),
            has_challenge,
            cpus_online: count(online),
            cpus_possible: count(aya::util::nr_cpus().unwrap_or(online)),
            peer: peer(state),
        }
    }

    /// Whether what arrives is spread over the CPUs, and the driver has queues for XDP.
    pub fn examine(&self) -> Finding {
        let cpus = self.cpus_online;
        let Some(queues) = self.queues.filter(|queues| queues.receiving() > 0) else {
            let most = self.receiving_max;
            return Finding::ok(CHECK, format!("at most {most} receive queues, {cpus} CPUs"));
        };
        let (now, most) = (self.receiving(queues), queues.receiving_max());
        let of = self
            .of
            .as_ref()
            .map_or_else(String::new, |it| format!(" of {it}"));
        let found = format!("{now} of {most} receive queues{of}, {cpus} CPUs");
        let warning = |(why, fix): (String, Option<String>)| Finding {
            fix,
            ..Finding::warning(CHECK, found.clone(), why)
        };
        let unmet = self.unmet(queues);
        // Without free queues, answers are slow. That is better than idle CPUs.
        let (refused, slow) = match self.rule() {
            Rule::Spare => (None, unmet),
            Rule::Half | Rule::Cpus(_) | Rule::Peer | Rule::Unmerged | Rule::Nothing => {
                (unmet, None)
            }
        };
        let wanted = self.wanted(queues);
        let idle = (now < wanted).then(|| {
            let why = "each queue uses one CPU, so other CPUs do not help in a flood";
            self.change(queues, wanted, why)
        });
        let first = refused.or(idle).or(slow);
        first.map_or_else(|| Finding::ok(CHECK, found.clone()), warning)
    }

    /// Returns why a driver that supports XDP reports that it does not, and the command that ends
    /// it.
    pub fn hidden(&self, device: &Device) -> Option<(String, Option<String>)> {
        match self.rule() {
            Rule::Half => self.unmet(self.queues?),
            Rule::Unmerged => {
                let is_on = |it: &&str| device.has(it) == Some(true);
                let feature = ["rx-lro", "rx-gro-hw"].into_iter().find(is_on)?;
                let fix = format!("ethtool --features {} {feature} off", self.name);
                Some((self.why()?.to_owned(), Some(fix)))
            }
            Rule::Spare | Rule::Cpus(_) | Rule::Peer | Rule::Nothing => None,
        }
    }

    /// Returns when the driver refuses native mode, or is slow.
    pub fn why(&self) -> Option<&'static str> {
        self.driver().map(|driver| driver.why)
    }

    fn driver(&self) -> Option<&'static Driver> {
        let name = self.driver.as_deref()?;
        DRIVERS.iter().find(|driver| driver.name == name)
    }

    fn rule(&self) -> Rule {
        self.driver().map_or(Rule::Nothing, |driver| driver.rule)
    }

    /// The queues that receive. virtio-net also counts those that it added for XDP.
    fn receiving(&self, queues: Queues) -> u32 {
        let now = queues.receiving();
        let has_added = self.runs_native && now > self.cpus_possible;
        if self.rule() == Rule::Spare && has_added {
            return now - self.cpus_possible;
        }
        now
    }

    /// The most queues that may receive under the rule; 0 if it is not met with any number.
    fn allowed(&self, queues: Queues) -> u32 {
        let most = queues.receiving_max();
        match self.rule() {
            Rule::Half if queues.combined_max > 0 => most / 2,
            Rule::Half => most.min(queues.tx_max / 2),
            Rule::Spare if self.has_challenge => {
                let without_spare = most.saturating_sub(self.cpus_possible);
                let is_enough = without_spare >= self.cpus_online;
                if is_enough { without_spare } else { 0 }
            }
            Rule::Cpus(cpus) if self.cpus_possible > cpus => 0,
            Rule::Spare | Rule::Cpus(_) | Rule::Peer | Rule::Unmerged | Rule::Nothing => most,
        }
    }

    /// The number of queues that uses the most CPUs.
    fn wanted(&self, queues: Queues) -> u32 {
        let allowed = match self.allowed(queues) {
            0 => queues.receiving_max(),
            allowed => allowed,
        };
        self.cpus_online.min(allowed)
    }

    /// Returns why the driver refuses native mode, or sends answers slowly, and the command that
    /// fixes it, if there is one.
    fn unmet(&self, queues: Queues) -> Option<(String, Option<String>)> {
        let driver = self.driver()?;
        let (now, allowed) = (self.receiving(queues), self.allowed(queues));
        let is_equal = queues.combined_max > 0 || queues.rx == queues.tx;
        let sends = self.peer.as_ref().filter(|(_, peer)| peer.tx > now);
        let is_met = match driver.rule {
            Rule::Half => self.runs_native || (now <= allowed && is_equal),
            Rule::Spare => now <= allowed || now < queues.receiving(),
            Rule::Cpus(_) => allowed > 0,
            Rule::Peer => self.runs_native || sends.is_none(),
            Rule::Unmerged | Rule::Nothing => true,
        };
        match sends {
            _ if is_met => None,
            Some((peer, _)) => {
                let fix = format!("ethtool --set-channels {peer} tx {now}");
                Some((driver.why.to_owned(), Some(fix)))
            }
            None if allowed == 0 => Some((driver.why.to_owned(), None)),
            None => Some(self.change(queues, self.wanted(queues), driver.why)),
        }
    }

    /// The reason for another number of queues, and the command that sets it.
    fn change(&self, queues: Queues, wanted: u32, why: &str) -> (String, Option<String>) {
        let is_half = self.rule() == Rule::Half;
        let numbers = if queues.combined_max > 0 {
            // Separate queues stay as they are.
            format!("combined {}", wanted.saturating_sub(queues.rx))
        } else if is_half {
            format!("rx {wanted} tx {wanted}")
        } else {
            format!("rx {wanted}")
        };
        let set = format!("ethtool --set-channels {} {numbers}", self.name);
        // `virtnet_set_channels`.
        if self.rule() == Rule::Spare && self.runs_native {
            let why = format!("{why}; virtio-net only changes them without a program");
            return (why, Some(format!("rlctl detach && {set} && rlctl reload")));
        }
        (why.to_owned(), Some(set))
    }
}

/// The other end of a veth pair, if it is in this namespace, with its queues.
fn peer(state: &InterfaceState) -> Option<(String, Queues)> {
    let index = state
        .lower
        .filter(|_| state.kind.as_deref() == Some("veth"))?;
    let peer = interface::query_index(index).ok()??;
    // In another namespace, the index is that of another interface.
    let is_peer = peer.lower == Some(state.index) && peer.kind == state.kind;
    let queues = device::read(&peer.name, index).ok()?.queues?;
    is_peer.then_some((peer.name, queues))
}

#[cfg(test)]
mod tests {
    use ethtool::EthtoolMessage;
    use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
    use netlink_packet_generic::GenlMessage;

    use super::{super::finding::State, *};

    /// Attributes of an answer, `ETHTOOL_A_CHANNELS_*` of `linux/ethtool_netlink.h`.
    type Attributes = [(u16, u32)];

    const RX_MAX: u16 = 2;
    const TX_MAX: u16 = 3;
    const OTHER_MAX: u16 = 4;
    const COMBINED_MAX: u16 = 5;
    const RX: u16 = 6;
    const TX: u16 = 7;
    const OTHER: u16 = 8;
    const COMBINED: u16 = 9;

    /// An answer to `ETHTOOL_MSG_CHANNELS_GET` as `ethnl_default_doit` and `channels_fill_reply` of
    /// the kernel write it. `the_answers_are_those_of_the_kernel` compares it with recordings.
    /// The numbers follow `get_channels` of each driver, as of Linux 6.18.
    fn answer(index: u32, name: &str, attributes: &Attributes) -> Vec<u8> {
        let attribute = |kind: u16, value: &[u8]| {
            let length = u16::try_from(value.len() + 4).unwrap();
            let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
            bytes.extend(value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        };
        let device = attribute(1, &index.to_ne_bytes());
        let name = attribute(2, format!("{name}\0").as_bytes());
        // `ETHTOOL_MSG_CHANNELS_GET_REPLY` in version 1, and a nested header.
        let mut bytes = vec![0x12, 1, 0, 0];
        bytes.extend(attribute(1 | 0x8000, &[device, name].concat()));
        for (kind, value) in attributes {
            bytes.extend(attribute(*kind, &value.to_ne_bytes()));
        }
        let length = u32::try_from(bytes.len() + 16).unwrap();
        let mut message = length.to_ne_bytes().to_vec();
        // Family, no flags, sequence number, and port.
        message.extend([0x15, 0, 0, 0, 2, 0, 0, 0, 0xf4, 0x0f, 0, 0]);
        message.extend(bytes);
        message
    }

    /// Reads an answer in the way of a netlink connection.
    fn queues(answer: &[u8]) -> Queues {
        let message = NetlinkMessage::<GenlMessage<EthtoolMessage>>::deserialize(answer).unwrap();
        let NetlinkPayload::InnerMessage(message) = message.payload else {
            panic!("{message:?}");
        };
        message.payload.nlas.into_iter().collect()
    }

    fn subject(driver: &str, attributes: &Attributes) -> Subject {
        Subject {
            name: "eth0".to_owned(),
            driver: Some(driver.to_owned()),
            queues: Some(queues(&answer(2, "eth0", attributes))),
            cpus_online: 8,
            cpus_possible: 8,
            ..Subject::default()
        }
    }

    #[track_caller]
    fn check(subject: &Subject, expected: Option<&str>) {
        let finding = subject.examine();
        let state = [State::Ok, State::Warning][usize::from(expected.is_some())];
        assert_eq!(finding.state, state, "{finding:?}");
        let fix = expected.filter(|it| !it.is_empty());
        assert_eq!(finding.fix.as_deref(), fix, "{finding:?}");
    }

    const NO_COMMAND: Option<&str> = Some("");

    /// Recorded by `strace -xx ethtool --show-channels` on Linux 6.18: a virtio-net of Firecracker,
    /// and a veth with two queues for each direction.
    #[test]
    fn the_answers_are_those_of_the_kernel() {
        let virtio = b"\x12\x01\x00\x00\x18\x00\x01\x80\x08\x00\x01\x00\x04\x00\x00\x00\
            \x09\x00\x02\x00\x65\x74\x68\x30\x00\x00\x00\x00\
            \x08\x00\x05\x00\x01\x00\x00\x00\x08\x00\x09\x00\x01\x00\x00\x00";
        let built = answer(4, "eth0", &[(COMBINED_MAX, 1), (COMBINED, 1)]);
        assert_eq!(built[16..], virtio[..]);
        let veth = b"\x12\x01\x00\x00\x14\x00\x01\x80\x08\x00\x01\x00\x03\x00\x00\x00\
            \x07\x00\x02\x00\x76\x61\x00\x00\
            \x08\x00\x02\x00\x02\x00\x00\x00\x08\x00\x06\x00\x02\x00\x00\x00\
            \x08\x00\x03\x00\x02\x00\x00\x00\x08\x00\x07\x00\x02\x00\x00\x00";
        let built = answer(3, "va", &[(RX_MAX, 2), (RX, 2), (TX_MAX, 2), (TX, 2)]);
        assert_eq!(built[16..], veth[..]);
        assert_eq!(queues(&built).receiving_max(), 2);
    }

    fn combined(driver: &str, now: u32, most: u32) -> Subject {
        subject(driver, &[(COMBINED_MAX, most), (COMBINED, now)])
    }

    fn gve(rx: u32, tx: u32) -> Subject {
        subject("gve", &[(RX_MAX, 16), (RX, rx), (TX_MAX, 16), (TX, tx)])
    }

    #[test]
    fn ena_and_gve_use_at_most_half_of_their_queues() {
        check(
            &combined("ena", 8, 8),
            Some("ethtool --set-channels eth0 combined 4"),
        );
        check(
            &combined("ena", 2, 8),
            Some("ethtool --set-channels eth0 combined 4"),
        );
        check(&combined("ena", 4, 8), None);
        check(&combined("ena", 1, 1), NO_COMMAND);
        check(&gve(16, 16), Some("ethtool --set-channels eth0 rx 8 tx 8"));
        check(&gve(8, 16), Some("ethtool --set-channels eth0 rx 8 tx 8"));
        check(&gve(8, 8), None);
    }

    #[test]
    fn ena_hides_its_support_of_xdp() {
        let device = Device::default();
        let (why, fix) = combined("ena", 8, 8).hidden(&device).unwrap();
        assert!(why.contains("hides its XDP support"), "{why}");
        assert_eq!(fix.unwrap(), "ethtool --set-channels eth0 combined 4");
        assert_eq!(combined("ena", 4, 8).hidden(&device), None);
    }

    #[test]
    fn virtio_net_needs_free_queues_only_for_answers() {
        let mut subject = combined("virtio_net", 8, 8);
        check(&subject, None);
        subject.has_challenge = true;
        check(&subject, NO_COMMAND);
        let mut enough = combined("virtio_net", 8, 16);
        enough.has_challenge = true;
        check(&enough, None);
        // Eight more were added with the program.
        let mut native = combined("virtio_net", 12, 16);
        (native.has_challenge, native.runs_native) = (true, true);
        let set = "rlctl detach && ethtool --set-channels eth0 combined 8 && rlctl reload";
        check(&native, Some(set));
        check(
            &combined("virtio_net", 4, 8),
            Some("ethtool --set-channels eth0 combined 8"),
        );
        let mut too_many = combined("virtio_net", 16, 20);
        too_many.has_challenge = true;
        check(&too_many, Some("ethtool --set-channels eth0 combined 8"));
    }

    #[test]
    fn other_cards_use_a_queue_for_each_cpu() {
        let all = Some("ethtool --set-channels eth0 combined 8");
        for driver in ["mlx5_core", "hv_netvsc"] {
            check(&combined(driver, 4, 16), all);
            check(&combined(driver, 8, 16), None);
        }
        for driver in ["ixgbe", "i40e"] {
            let with_other = |now| {
                let combined = [(COMBINED_MAX, 63), (COMBINED, now)];
                subject(
                    driver,
                    &[&[(OTHER_MAX, 1), (OTHER, 1)], &combined[..]].concat(),
                )
            };
            check(&with_other(4), all);
            check(&with_other(8), None);
        }
        let ice = |now, most| {
            let separate = [(RX_MAX, most), (RX, 0), (TX_MAX, most), (TX, 0)];
            let rest = [
                (OTHER_MAX, 1),
                (OTHER, 1),
                (COMBINED_MAX, most),
                (COMBINED, now),
            ];
            subject("ice", &[separate, rest].concat())
        };
        check(&ice(4, 8), all);
        // It does not have twelve because it reports six twice.
        check(&ice(6, 6), None);
    }

    #[test]
    fn ixgbe_refuses_more_cpus_than_it_has_queues_for() {
        let mut subject = combined("ixgbe", 63, 63);
        subject.cpus_possible = 128;
        check(&subject, None);
        subject.cpus_possible = 144;
        check(&subject, NO_COMMAND);
    }

    #[test]
    fn mlx5_hides_its_support_of_xdp_while_it_merges_packets() {
        let with = |features: &[&str]| Device {
            features: Some(features.iter().map(|it| (*it).to_owned()).collect()),
            ..Device::default()
        };
        let subject = combined("mlx5_core", 8, 8);
        let (_, fix) = subject.hidden(&with(&["rx-lro"])).unwrap();
        assert_eq!(fix.unwrap(), "ethtool --features eth0 rx-lro off");
        assert_eq!(subject.hidden(&with(&["rx-gro"])), None);
    }

    #[test]
    fn a_veth_has_as_many_queues_to_receive_as_the_other_end_to_send() {
        let attributes = |rx, tx| [(RX_MAX, rx), (RX, rx), (TX_MAX, tx), (TX, tx)];
        let mut veth = subject("veth", &attributes(1, 1));
        let peer = |tx| {
            let answer = answer(3, "eth1", &attributes(1, tx));
            ("eth1".to_owned(), queues(&answer))
        };
        veth.peer = Some(peer(4));
        check(&veth, Some("ethtool --set-channels eth1 tx 1"));
        veth.peer = Some(peer(1));
        check(&veth, None);
    }
}
