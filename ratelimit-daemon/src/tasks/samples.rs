//! Samples of all packets, from the kernel to the detection of attacks.

use std::{
    fs,
    net::IpAddr,
    time::{Duration, Instant as Moment},
};

use ratelimit_common::{
    Cursor, Instant,
    parse::{LinkLayer, tunnel::Tunnel},
    sample::{Front, Socket},
};
use ratelimit_core::{
    config::tunnels,
    detection::{Detector, Host, Kind, Rules, Sample, Step},
};
use ratelimit_interface as interface;
use tokio::time::sleep;
use tracing::warn;
use zerocopy::FromBytes;

use crate::{
    clock,
    control::{
        Handle,
        commands::{NoteAttacks, SampleTraffic},
        queries::{self, AttackRules},
    },
    ring::{Events, Ring},
};

/// The interval at which the ring is emptied.
const PACE: Duration = Duration::from_millis(50);
/// The pause of sampling if attacks are only reported: after each window of a second, so that
/// packets pay next to nothing.
const BETWEEN: Duration = Duration::from_secs(4);
/// The timeout for the first packet of a window.
const WINDOW: Duration = Duration::from_secs(1);
/// The interval at which the rules are read again.
const RULES_LAST: Duration = Duration::from_secs(1);
/// Samples per read: more than the ring holds, so that it can fill again during the read.
const BATCH: usize = 1 << 14;

/// Whether this host forwards: IPv4 and IPv6.
const FORWARDING: [&str; 2] = [
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/net/ipv6/conf/all/forwarding",
];
/// The ports that it asks from, of both families.
const PORT_RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// The raw sockets of this host: the protocol follows the colon of the address.
const RAW_SOCKETS: [&str; 2] = ["/proc/net/raw", "/proc/net/raw6"];
/// Tunnels that end at an interface of their kind, and their protocols.
const TUNNELS: [(Tunnel, u8); 3] = [(Tunnel::Gre, 47), (Tunnel::Ipip, 4), (Tunnel::Ipip, 41)];

/// Looks for attacks: all the time where the configuration names some, else in one second of five.
pub async fn follow(samples: Ring, controller: Handle) -> anyhow::Result<()> {
    let mut rules = Rules::new();
    let mut always = false;
    let mut detector = Detector::new(rules.clone());
    let mut asked: Option<Moment> = None;
    // Mapped only while packets are sampled.
    let mut ring: Option<Events> = None;
    // The time since which they are sampled, or are not.
    let mut since = clock::monotonic();
    loop {
        if asked.is_none_or(|asked| clock::elapsed(asked) >= RULES_LAST) {
            let wanted: AttackRules = controller
                .ask(|it| queries::attack_rules(&it.state))
                .await?;
            let mut host = host(wanted.own);
            if wanted.rules.contains_key(&Kind::ProtocolFlood) {
                host = host.without(unreceived().unwrap_or_default());
            }
            asked = Some(clock::monotonic());
            if wanted.rules != rules || wanted.always != always {
                (rules, always) = (wanted.rules, wanted.always);
                let step = detector.set_rules(rules.clone());
                detector.pause();
                report(&controller, step, &detector).await?;
                let is_on = !rules.is_empty();
                controller.call(SampleTraffic(is_on && !always)).await??;
                since = clock::monotonic();
                ring = is_on.then(|| open(&samples)).flatten();
            }
            detector.set_host(host);
        }
        sleep(if rules.is_empty() { RULES_LAST } else { PACE }).await;
        let Some(mapped) = &mut ring else {
            if !rules.is_empty() && clock::elapsed(since) >= BETWEEN {
                ring = open(&samples);
                controller.call(SampleTraffic(ring.is_some())).await??;
                since = clock::monotonic();
            }
            continue;
        };
        let step = read(mapped, &mut detector);
        let is_seen =
            step.sending.is_some() || !detector.is_in_window() && clock::elapsed(since) >= WINDOW;
        if is_seen && !always {
            controller.call(SampleTraffic(false)).await??;
            detector.pause();
            (ring, since) = (None, clock::monotonic());
        }
        if step.is_news() {
            report(&controller, step, &detector).await?;
        }
    }
}

/// Maps the ring. `None` if that fails, as without a free descriptor; it is tried again later.
fn open(samples: &Ring) -> Option<Events> {
    let opened = samples.open();
    if let Err(error) = &opened {
        let error = format!("{error:#}");
        warn!(error, "cannot read samples: attacks are not detected");
    }
    opened.ok()
}

/// Empties the ring into the detector.
fn read(ring: &mut Events, detector: &mut Detector) -> Step {
    // First: a sample that comes in between belongs to the window that is open.
    let now = clock::now();
    let mut step = Step::default();
    for _ in 0..BATCH {
        let Some(item) = ring.next() else { break };
        if let Ok(front) = Front::read_from_bytes(&item) {
            let at = Instant::from_nanos(front.at_ns);
            let frame = Cursor::with_frame_bytes(front.frame(), front.frame_bytes);
            let link_layer = LinkLayer::from_number(front.link_layer);
            let sample = Sample::read(at, front.packets, frame, link_layer);
            let socket = Socket::from_number(front.socket);
            let sample = sample.map(|sample| sample.with_socket(socket));
            step.extend(sample.map_or_else(Step::default, |sample| detector.take(&sample)));
        }
    }
    step.extend(detector.advance(now));
    step
}

/// Returns the properties of this host with the addresses `own`. A family with forwarding is left
/// out: packets to its addresses may be translated for another host or a container.
fn host(own: Vec<IpAddr>) -> Host {
    let [forwards_v4, forwards_v6] = FORWARDING.map(|name| {
        let read = fs::read_to_string(name);
        read.map_or(true, |text| text.trim() != "0")
    });
    let own = own.into_iter();
    let addresses = own.filter(|address| match address {
        IpAddr::V4(_) => !forwards_v4,
        IpAddr::V6(_) => !forwards_v6,
    });
    let ports = fs::read_to_string(PORT_RANGE).unwrap_or_default();
    let first = ports.split_whitespace().next();
    Host::new(addresses, first.and_then(|port| port.parse().ok()))
}

/// The protocols of tunnels of which this host has neither an interface nor a socket, or an error,
/// where that is not known.
fn unreceived() -> anyhow::Result<Vec<u8>> {
    let kinds = interface::kinds()?;
    let ended: Vec<Tunnel> = kinds
        .iter()
        .filter_map(|kind| tunnels::of_device(kind))
        .collect();
    let mut sockets = String::new();
    for path in RAW_SOCKETS {
        sockets.push_str(&fs::read_to_string(path)?);
    }
    let has_socket = |protocol: u8| sockets.contains(&format!(":{protocol:04X} "));
    let tunnels = TUNNELS.into_iter().filter(|(tunnel, protocol)| {
        // PPTP has its packets in GRE.
        let by_ppp = *tunnel == Tunnel::Gre && ended.contains(&Tunnel::Pppoe);
        !(ended.contains(tunnel) || by_ppp || has_socket(*protocol))
    });
    Ok(tunnels.map(|(_, protocol)| protocol).collect())
}

async fn report(controller: &Handle, step: Step, detector: &Detector) -> anyhow::Result<()> {
    let going_on = detector.attacks().cloned().collect();
    Ok(controller.call(NoteAttacks { step, going_on }).await?)
}
