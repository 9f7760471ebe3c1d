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

/// Counts the connections to ports of this host by the address of the client: those being
/// established, established, and being closed. A client that has closed its end counts until this
/// host has closed its own. Connections from this host to itself are left out.
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
    let none =
        StateFlags::LISTEN | StateFlags::TIME_WAIT | StateFlags::CLOSE | StateFlags::SYN_SENT;
    each(&(StateFlags::all() - none), |socket| {
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

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use super::*;

    #[test]
    fn connections_of_a_client_count_where_it_has_connected_to() {
        let address = |last| Ipv4Addr::new(127, 0, 0, last);
        let listener = TcpListener::bind((address(201), 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let connect = || TcpStream::connect((address(201), port)).unwrap();
        let count = || clients().unwrap().get(&address(1).into()).copied();
        let before = count().unwrap_or_default();
        let mut streams: Vec<TcpStream> = (0..7).map(|_| connect()).collect();
        assert!(count() >= Some(before + 7));
        let accepted: Vec<_> = (0..7).map(|_| listener.accept().unwrap()).collect();
        streams.truncate(4);
        drop(accepted);
        assert!(count().unwrap_or_default() <= before + 4);
    }
}
