//! Features, queues and XDP support of a driver, by generic netlink (ethtool, netdev).
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the kernel tells more than is asked for"
)]

use std::{collections::BTreeSet, fs, io};

use anyhow::{Context, Result};
use ethtool::{
    EthtoolAttr, EthtoolChannelAttr, EthtoolError, EthtoolFeatureAttr, EthtoolHandle,
    EthtoolMessage,
};
use futures_util::{Stream, StreamExt, pin_mut};
use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload, NlasIterator,
    Parseable, ParseableParametrized, parse_u64,
};
use netlink_packet_generic::{GenlFamily, GenlHeader, GenlMessage};

/// XDP features of a driver.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct XdpFeatures(u64);

impl XdpFeatures {
    /// Whether programs run in the driver (`NETDEV_XDP_ACT_BASIC`).
    pub const fn is_native(self) -> bool {
        self.0 & 1 != 0
    }

    /// Returns whether it transmits frames for programs on other devices
    /// (`NETDEV_XDP_ACT_NDO_XMIT`). One end of a veth pair does if the other one accepts them: it
    /// has an XDP program or GRO.
    pub const fn sends_for_others(self) -> bool {
        self.0 & 4 != 0
    }

    /// Whether it gives them frames of several buffers (`NETDEV_XDP_ACT_RX_SG`).
    pub const fn takes_several_buffers(self) -> bool {
        self.0 & 32 != 0
    }
}

/// The queues of a device, as `ethtool --show-channels` has them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Queues {
    pub rx: u32,
    pub rx_max: u32,
    pub tx: u32,
    pub tx_max: u32,
    /// Queues for both directions.
    pub combined: u32,
    pub combined_max: u32,
}

impl Queues {
    pub const fn receiving(self) -> u32 {
        self.rx + self.combined
    }

    /// The most that can receive. `ice` reports the same queues as combined and as separate ones.
    pub fn receiving_max(self) -> u32 {
        self.rx_max.max(self.combined_max)
    }
}

impl FromIterator<EthtoolAttr> for Queues {
    fn from_iter<T: IntoIterator<Item = EthtoolAttr>>(attributes: T) -> Self {
        let mut queues = Self::default();
        for attribute in attributes {
            let EthtoolAttr::Channel(attribute) = attribute else {
                continue;
            };
            match attribute {
                EthtoolChannelAttr::RxCount(count) => queues.rx = count,
                EthtoolChannelAttr::RxMax(count) => queues.rx_max = count,
                EthtoolChannelAttr::TxCount(count) => queues.tx = count,
                EthtoolChannelAttr::TxMax(count) => queues.tx_max = count,
                EthtoolChannelAttr::CombinedCount(count) => queues.combined = count,
                EthtoolChannelAttr::CombinedMax(count) => queues.combined_max = count,
                _ => {}
            }
        }
        queues
    }
}

/// A device, as far as its driver reports it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Device {
    /// The features that are on, by the names that `ethtool --show-features` has for strings of the
    /// kernel.
    pub features: Option<BTreeSet<String>>,
    pub queues: Option<Queues>,
    /// XDP features; Linux reports them since 6.3.
    pub xdp: Option<XdpFeatures>,
}

impl Device {
    /// Whether a feature is on.
    pub fn has(&self, feature: &str) -> Option<bool> {
        Some(self.features.as_ref()?.contains(feature))
    }
}

/// Returns the name of the driver of a device.
pub fn driver(bus: &str, device: &str) -> io::Result<String> {
    let link = fs::read_link(format!("/sys/bus/{bus}/devices/{device}/driver"))?;
    Ok(link
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into())
}

/// Queries the interface with this name and index.
///
/// # Errors
///
/// If the kernel cannot be queried. Fields that only the driver withholds are `None`.
pub fn read(name: &str, index: u32) -> Result<Device> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let opened = ethtool::new_connection().context("opening a netlink socket")?;
        let (connection, mut handle, _) = opened;
        tokio::spawn(connection);
        Ok(Device {
            features: features(&mut handle, name).await,
            queues: queues(&mut handle, name).await,
            xdp: xdp(&mut handle, index).await,
        })
    })
}

async fn features(handle: &mut EthtoolHandle, name: &str) -> Option<BTreeSet<String>> {
    let answer = handle.feature().get(Some(name)).execute().await;
    let active = attributes(answer)
        .await?
        .into_iter()
        .find_map(|it| match it {
            EthtoolAttr::Feature(EthtoolFeatureAttr::Active(bits)) => Some(bits),
            _ => None,
        })?;
    Some(
        active
            .into_iter()
            .filter(|it| it.value)
            .map(|it| it.name)
            .collect(),
    )
}

async fn queues(handle: &mut EthtoolHandle, name: &str) -> Option<Queues> {
    let answer = handle.channel().get(Some(name)).execute().await;
    attributes(answer).await.map(Queues::from_iter)
}

/// The attributes of the one answer; `None` where the driver has no such thing.
async fn attributes<S>(answer: Result<S, EthtoolError>) -> Option<Vec<EthtoolAttr>>
where
    S: Stream<Item = Result<GenlMessage<EthtoolMessage>, EthtoolError>>,
{
    let answer = answer.ok()?;
    pin_mut!(answer);
    let message = answer.next().await?.ok()?;
    Some(message.payload.nlas)
}

async fn xdp(handle: &mut EthtoolHandle, index: u32) -> Option<XdpFeatures> {
    let mut message = NetlinkMessage::from(GenlMessage::from_payload(Netdev::Request(index)));
    message.header.flags = NLM_F_REQUEST;
    let answer = handle.handle.request(message).await.ok()?;
    pin_mut!(answer);
    reported(answer.next().await?.ok()?.payload)
}

fn reported(answer: NetlinkPayload<GenlMessage<Netdev>>) -> Option<XdpFeatures> {
    match answer {
        NetlinkPayload::InnerMessage(message) => match message.payload {
            Netdev::Reported(features) => features,
            Netdev::Request(_) => None,
        },
        _ => None,
    }
}

/// `NETDEV_CMD_DEV_GET` of linux/netdev.h, and its answer.
#[derive(Clone, Copy, Debug)]
enum Netdev {
    Request(u32),
    Reported(Option<XdpFeatures>),
}

const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;

impl GenlFamily for Netdev {
    fn family_name() -> &'static str {
        "netdev"
    }

    fn command(&self) -> u8 {
        NETDEV_CMD_DEV_GET
    }

    fn version(&self) -> u8 {
        1
    }
}

impl Netdev {
    fn attribute(self) -> Option<DefaultNla> {
        match self {
            Self::Request(index) => Some(DefaultNla::new(
                NETDEV_A_DEV_IFINDEX,
                index.to_ne_bytes().to_vec(),
            )),
            Self::Reported(_) => None,
        }
    }
}

impl Emitable for Netdev {
    fn buffer_len(&self) -> usize {
        self.attribute().map_or(0, |it| it.buffer_len())
    }

    fn emit(&self, buffer: &mut [u8]) {
        if let Some(attribute) = self.attribute() {
            attribute.emit(buffer);
        }
    }
}

impl ParseableParametrized<[u8], GenlHeader> for Netdev {
    fn parse_with_param(bytes: &[u8], _: GenlHeader) -> Result<Self, DecodeError> {
        for attribute in NlasIterator::new(bytes) {
            let attribute = DefaultNla::parse(&attribute?)?;
            if netlink_packet_core::Nla::kind(&attribute) == NETDEV_A_DEV_XDP_FEATURES {
                let mut value = vec![0; netlink_packet_core::Nla::value_len(&attribute)];
                netlink_packet_core::Nla::emit_value(&attribute, &mut value);
                return Ok(Self::Reported(Some(XdpFeatures(parse_u64(&value)?))));
            }
        }
        Ok(Self::Reported(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer of Linux 6.18 for virtio-net, recorded by `strace -xx rlctl doctor eth0`; for ENA
    /// with more than half of its queues, the mask of features is 0.
    #[test]
    fn xdp_features_are_read_from_the_answer_of_the_kernel() {
        for (features, is_native) in [(0x2b, true), (0, false)] {
            let mut answer = *b"\x48\x00\x00\x00\x1b\x00\x00\x00\x05\x00\x00\x00\xbb\x16\x00\x00\
                \x01\x01\x00\x00\x08\x00\x01\x00\x04\x00\x00\x00\
                \x0c\x00\x03\x00\x2b\x00\x00\x00\x00\x00\x00\x00\
                \x0c\x00\x05\x00\x00\x00\x00\x00\x00\x00\x00\x00\
                \x0c\x00\x06\x00\x00\x00\x00\x00\x00\x00\x00\x00\
                \x08\x00\x04\x00\x01\x00\x00\x00";
            answer[32] = features;
            let message = NetlinkMessage::<GenlMessage<Netdev>>::deserialize(&answer).unwrap();
            let read = reported(message.payload).unwrap();
            assert_eq!(read.is_native(), is_native);
        }
    }
}
