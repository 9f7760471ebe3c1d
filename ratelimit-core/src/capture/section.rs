//! Interprets blocks: remembers interfaces, and passes packets on.

use pcap_parser::{
    Block, EnhancedPacketBlock, LegacyPcapBlock, PcapBlockOwned, SimplePacketBlock,
    traits::PcapNGPacketBlock,
};

use super::{CaptureError, Packet, interface::Interface};

/// A Packet Block, which Enhanced Packet Blocks have replaced, in both byte orders.
const OBSOLETE_PACKET_BLOCK: [u32; 2] = [2, 2_u32.swap_bytes()];

/// A part of a capture with interfaces of its own; a classic capture is one part.
#[derive(Debug, Default)]
pub struct Section {
    interfaces: Vec<Interface>,
    pub is_big_endian: bool,
    /// The buffer for converted frames.
    frame: Vec<u8>,
}

/// A block that is no use.
pub enum BlockError {
    /// Its packets are of an unsupported kind.
    Refused(CaptureError),
    /// It contradicts the format.
    Damaged(&'static str),
}

impl Section {
    /// The packet of a block; `None` for a block that has none.
    pub fn packet<'a>(
        &'a mut self,
        block: &'a PcapBlockOwned<'a>,
    ) -> Result<Option<Packet<'a>>, BlockError> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                self.interfaces = vec![Interface::of_pcap(header)];
            }
            PcapBlockOwned::Legacy(block) => return self.classic(block).map(Some),
            PcapBlockOwned::NG(Block::SectionHeader(header)) => {
                self.interfaces.clear();
                self.is_big_endian = header.big_endian();
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(block)) => {
                let interface = Interface::of_pcapng(block, self.is_big_endian);
                let problem = "an interface has an unsupported time resolution";
                self.interfaces
                    .push(interface.ok_or(BlockError::Damaged(problem))?);
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(block)) => {
                return self.enhanced(block).map(Some);
            }
            PcapBlockOwned::NG(Block::SimplePacket(block)) => return self.simple(block).map(Some),
            PcapBlockOwned::NG(Block::Unknown(block))
                if OBSOLETE_PACKET_BLOCK.contains(&block.block_type) =>
            {
                return Err(BlockError::Refused(CaptureError::ObsoleteBlock));
            }
            PcapBlockOwned::NG(_) => {}
        }
        Ok(None)
    }

    fn classic<'a>(&'a mut self, block: &LegacyPcapBlock<'a>) -> Result<Packet<'a>, BlockError> {
        let interface = self.interface(0)?;
        let time_ns = interface.time_of_parts_ns(block.ts_sec, block.ts_usec);
        self.frame(interface, Some(time_ns), block.data, block.origlen)
    }

    fn enhanced<'a>(
        &'a mut self,
        block: &'a EnhancedPacketBlock<'a>,
    ) -> Result<Packet<'a>, BlockError> {
        let interface = self.interface(block.if_id)?;
        let units = u64::from(block.ts_high) << 32 | u64::from(block.ts_low);
        let time_ns = Some(interface.time_ns(units));
        self.frame(interface, time_ns, block.packet_data(), block.origlen)
    }

    /// The length was truncated to that of the interface, and is not recorded.
    fn simple<'a>(
        &'a mut self,
        block: &'a SimplePacketBlock<'a>,
    ) -> Result<Packet<'a>, BlockError> {
        let interface = self.interface(0)?;
        let data = block.packet_data();
        let kept = usize::try_from(interface.snap_bytes).unwrap_or(usize::MAX);
        let data = &data[..data.len().min(kept)];
        self.frame(interface, None, data, block.origlen)
    }

    fn frame<'a>(
        &'a mut self,
        interface: Interface,
        time_ns: Option<u64>,
        data: &'a [u8],
        wire_bytes: u32,
    ) -> Result<Packet<'a>, BlockError> {
        let wire_bytes = wire_bytes.max(u32::try_from(data.len()).unwrap_or(u32::MAX));
        let frame = interface.link.ethernet(data, wire_bytes, &mut self.frame);
        let (frame, frame_bytes) =
            frame.map_err(|name| BlockError::Refused(CaptureError::LinkType(name)))?;
        Ok(Packet {
            time_ns,
            frame,
            frame_bytes,
        })
    }

    fn interface(&self, index: u32) -> Result<Interface, BlockError> {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let problem = "a packet refers to an undefined interface";
        let interface = self.interfaces.get(index).copied();
        interface.ok_or(BlockError::Damaged(problem))
    }
}
