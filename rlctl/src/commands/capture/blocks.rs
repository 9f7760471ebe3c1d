//! The blocks of a pcapng file that comes in pieces: only whole ones are given on, so a file is
//! never cut inside one.

use pcap_parser::{
    OptionCode, PcapNGOption,
    pcapng::{EPB_MAGIC, ISB_MAGIC, parse_interfacestatisticsblock_le},
};

/// The type of a block, its length, and behind its content the length again.
const BLOCK_BYTES_MIN: usize = 12;

/// Counts of written and lost packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Packets in the file.
    pub written: u64,
    /// Packets that the sample was taken of.
    pub matched: u64,
    /// Packets that the kernel copied.
    pub sent: u64,
    /// Packets of the sample that it did not.
    pub not_written: u64,
}

/// Reassembles whole blocks from pieces of a file.
#[derive(Default)]
pub struct Blocks {
    rest: Vec<u8>,
    /// Counts from the blocks seen so far.
    pub tally: Tally,
}

impl Blocks {
    /// Takes a piece, and gives the blocks that are whole with it.
    pub fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        self.rest.extend_from_slice(piece);
        let mut whole = 0;
        while let Some((kind, length)) = head(&self.rest[whole..])
            && self.rest.len() - whole >= length
        {
            let block = &self.rest[whole..whole + length];
            count(kind, block, &mut self.tally);
            whole += length;
        }
        let rest = self.rest.split_off(whole);
        std::mem::replace(&mut self.rest, rest)
    }
}

/// The type and length of a block.
fn head(bytes: &[u8]) -> Option<(u32, usize)> {
    let (kind, rest) = bytes.split_first_chunk()?;
    let (length, _) = rest.split_first_chunk()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    Some((u32::from_le_bytes(*kind), length.max(BLOCK_BYTES_MIN)))
}

fn count(kind: u32, block: &[u8], tally: &mut Tally) {
    if kind == EPB_MAGIC {
        tally.written += 1;
    }
    if kind == ISB_MAGIC
        && let Ok((_, statistics)) = parse_interfacestatisticsblock_le(block)
    {
        let number = |code| number(&statistics.options, code);
        tally.matched += number(OptionCode::IsbFilterAccept);
        tally.not_written += number(OptionCode::IsbOsDrop);
        tally.sent += number(OptionCode::IsbUsrDeliv);
    }
}

fn number(options: &[PcapNGOption<'_>], code: OptionCode) -> u64 {
    let option = options.iter().find(|option| option.code == code);
    let bytes = option.and_then(|option| option.as_bytes().ok()?.first_chunk());
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_whole_however_they_come() {
        let packet = [EPB_MAGIC, 16, 7, 16].map(u32::to_le_bytes).concat();
        let file = packet.repeat(3);
        for cut in 0..file.len() {
            let mut blocks = Blocks::default();
            let first = blocks.push(&file[..cut]);
            assert_eq!(first.len(), cut / 16 * 16);
            let second = blocks.push(&file[cut..]);
            assert_eq!([first, second].concat(), file);
            assert_eq!(blocks.tally.written, 3);
        }
    }
}
