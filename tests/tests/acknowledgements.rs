//! Acknowledgements of no connection are a flood, and those of real connections are none, however
//! many.

use std::{
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use ratelimit_core::{
    api::{AttackView, Status},
    detection::Kind,
};
use ratelimit_tests::{
    Lab, PATIENCE, forged, lab::Sender, packet::ACK, require_root, service::Service,
};

const PORT: u16 = 8080;
const CLIENTS: usize = 10;
/// More than what makes a flood, in a second, if it were of no connection.
const BUSY: u64 = 500;
const NEAR: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1)),
];
const TOML: &str = "[policy.default]\n\
                    limits = []\n\
                    [detection.ack_flood]\n\
                    threshold = 200\n\
                    [detection.syn_flood]\n\
                    [detection.heavy_hitter]\n";

#[test]
fn downloads_are_not_named_and_a_flood_beside_them_is() {
    require_root!();
    for near in NEAR {
        let lab = Lab::new().unwrap();
        let ends = ["10.77.0.1/24", "fd77::1/64"];
        lab.add_addresses(&ends, &["10.77.0.2/24", "fd77::2/64"])
            .unwrap();
        let service = Service::started(&lab, TOML).unwrap();
        let sender = Sender::new(&lab.far).unwrap();
        let listener = lab
            .near
            .enter(|| TcpListener::bind(SocketAddr::new(near, PORT)))
            .unwrap();
        thread::scope(|scope| {
            let (servers, clients): (Vec<_>, Vec<_>) =
                (0..CLIENTS).map(|_| connection(&lab, &listener)).unzip();
            let _ends = Ends(servers.iter().map(|it| it.try_clone().unwrap()).collect());
            for server in servers {
                scope.spawn(move || serve(server));
            }
            for client in clients {
                scope.spawn(move || download(client));
            }
            // The daemon checks what is configured each second.
            thread::sleep(Duration::from_secs(2));
            let before = lab.near.received().unwrap().packets;
            thread::sleep(Duration::from_secs(3));
            let after = lab.near.received().unwrap().packets;
            assert!(after - before >= 3 * BUSY, "{}", after - before);
            assert_eq!(attacks(&service), []);
            let found = flood(&service, &sender, near);
            assert_eq!(found.len(), 1, "{found:?}");
            let reported = (found[0].kind, found[0].subject.clone());
            assert_eq!(reported, (Kind::AckFlood, format!("to {near}")));
        });
        let metrics = service.metrics().unwrap();
        let counted = "ratelimit_attacks_total{kind=\"ack-flood\"} 1";
        assert!(metrics.contains(counted), "{metrics}");
    }
}

/// The ends of the service: with them the downloads end.
struct Ends(Vec<TcpStream>);

impl Drop for Ends {
    fn drop(&mut self) {
        for end in &self.0 {
            // Connections that the other side has ended are.
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

/// Sends forged acknowledgements until something is found.
fn flood(service: &Service, sender: &Sender, near: IpAddr) -> Vec<AttackView> {
    let start = Instant::now();
    for round in 0_u32.. {
        for packet in 0..5_000 {
            let forged = forged::frame(round * 5_000 + packet, near);
            sender.send(&forged.tcp(PORT, ACK).build_to(near)).unwrap();
        }
        let found = attacks(service);
        if !found.is_empty() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "{}", service.log());
    }
    unreachable!()
}

/// Both ends of a connection: that of the service, and that of the client.
fn connection(lab: &Lab, listener: &TcpListener) -> (TcpStream, TcpStream) {
    let address = listener.local_addr().unwrap();
    let connect = || TcpStream::connect_timeout(&address, PATIENCE);
    let client = lab.far.enter(connect).unwrap();
    (listener.accept().unwrap().0, client)
}

fn serve(mut stream: TcpStream) {
    while stream.write_all(&[7; 1 << 14]).is_ok() {}
}

fn download(mut stream: TcpStream) {
    let mut bytes = [0; 1 << 12];
    while stream.read(&mut bytes).is_ok_and(|read| read > 0) {}
}

fn attacks(service: &Service) -> Vec<AttackView> {
    service.json::<Status>(&["status"]).unwrap().attacks
}
