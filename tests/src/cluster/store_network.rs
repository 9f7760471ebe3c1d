//! A network between nodes and the store of their cluster: each node has a link of its own to it,
//! which can be cut.

use anyhow::Result;

use crate::{Lab, lab::Namespace, redis::PORTS};

/// The end of a link at a node.
const LINK: &str = "store0";

/// The namespace of a store.
pub struct StoreNetwork {
    /// The namespace in which the store is to listen.
    pub store: Namespace,
}

impl StoreNetwork {
    /// A network that no node is in.
    pub fn new() -> Result<Self> {
        let store = Namespace::of("store")?;
        store.ip(&["link", "set", "lo", "up"])?;
        Ok(Self { store })
    }

    /// Links the node at a place, and gives the addresses of the store there.
    pub fn join(&self, lab: &Lab, place: usize) -> Result<String> {
        let end = end(place);
        let peer = [
            "type",
            "veth",
            "peer",
            "name",
            LINK,
            "netns",
            lab.near.name(),
        ];
        self.store
            .ip(&[&["link", "add", &end][..], &peer].concat())?;
        let net = format!("10.99.{place}");
        for (namespace, link, last) in [(&self.store, end.as_str(), 1), (&lab.near, LINK, 2)] {
            let address = format!("{net}.{last}/24");
            namespace.ip(&["address", "add", &address, "dev", link])?;
            namespace.ip(&["link", "set", link, "up"])?;
        }
        let [first, second] = PORTS;
        Ok(format!("redis://{net}.1:{first},{net}.1:{second}"))
    }

    /// Cuts a link: packets are lost silently.
    pub fn cut(&self, place: usize) -> Result<()> {
        self.set(place, "down")
    }

    /// Mends it.
    pub fn mend(&self, place: usize) -> Result<()> {
        self.set(place, "up")
    }

    fn set(&self, place: usize, state: &str) -> Result<()> {
        let set = ["link", "set", &end(place), state];
        self.store.ip(&set).map(drop)
    }
}

fn end(place: usize) -> String {
    format!("node{place}")
}
