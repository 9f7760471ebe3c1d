//! TCP connections of this host (`sock_diag`).

use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
};

use netlink_packet_sock_diag::{
    SockDiagMessage,
    constants::{AF_INET, AF_INET6, IPPROTO_TCP},
    inet::{ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags},
};

use crate::dump;

/// Counts the connections to ports of this host by the address of the client: those established,
/// and being closed. Those being established do not count, since their addresses may be forged. A
/// client that has closed its end counts until this host has closed its own. Connections from this
/// host to itself are left out.
///
/// # Errors
///
/// Fails if the kernel lists no sockets.
pub fn clients() -> anyhow::Result<HashMap<IpAddr, u32>> {
    let mut listening = HashSet::new();
    each(&StateFlags::LISTEN, |socket| {
        listening.insert(socket.source_port);
    })?;
    let mut clients = HashMap::new();
    let none = StateFlags::LISTEN | StateFlags::TIME_WAIT | StateFlags::CLOSE;
    let opening = StateFlags::SYN_SENT | StateFlags::SYN_RECV;
    each(&(StateFlags::all() - none - opening), |socket| {
        let client = socket.destination_address.to_canonical();
        if listening.contains(&socket.source_port) && client != socket.source_address.to_canonical()
        {
            *clients.entry(client).or_default() += 1;
        }
    })?;
    Ok(clients)
}

/// Shows the TCP sockets in some states, of both families.
fn each(states: &StateFlags, mut visit: impl FnMut(&SocketId)) -> anyhow::Result<()> {
    for (family, socket_id) in [
        (AF_INET, SocketId::new_v4()),
        (AF_INET6, SocketId::new_v6()),
    ] {
        let request = InetRequest {
            family,
            protocol: IPPROTO_TCP,
            extensions: ExtensionFlags::empty(),
            states: states.clone(),
            socket_id,
        };
        dump(SockDiagMessage::InetRequest(request), |message| {
            if let SockDiagMessage::InetResponse(answer) = message {
                let InetResponse { header, .. } = *answer;
                visit(&header.socket_id);
            }
        })?;
    }
    Ok(())
}
