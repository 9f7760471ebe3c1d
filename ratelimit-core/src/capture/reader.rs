//! The stream of packets of a capture.

use std::io::{self, Read};

use pcap_parser::{LegacyPcapReader, PcapError, PcapNGReader, traits::PcapReaderIterator};

use super::{
    CaptureError, Format, Packet,
    format::MAGIC_BYTES,
    section::{BlockError, Section},
    whole::{Failed, Whole},
};

/// Bytes per read.
const BUFFER_BYTES: usize = 1 << 18;
/// The smallest block: its type, and its length at either end.
const BLOCK_BYTES_MIN: u32 = 12;
/// The largest block: a longer one is not a packet but damage. `tcpdump` keeps at most 256 KiB of a
/// packet.
const BLOCK_BYTES_MAX: usize = 1 << 24;

/// A capture, from its first packet on. Memory is bounded by the largest packet.
pub struct Capture<'a> {
    format: Format,
    parser: Box<dyn PcapReaderIterator + 'a>,
    failed: Failed,
    section: Section,
    packets: u64,
}

/// The next action of the parser.
enum Step {
    Consume(usize),
    Refill,
    Grow,
    Cut,
    Damaged(&'static str),
}

const CONTRADICTION: &str = "its lengths contradict each other";

impl<'a> Capture<'a> {
    /// Reads the front of a capture, and sees what it is.
    ///
    /// # Errors
    ///
    /// When it is no capture.
    pub fn open(mut reader: impl Read + 'a) -> Result<Self, CaptureError> {
        let mut front = Vec::new();
        reader
            .by_ref()
            .take(MAGIC_BYTES as u64)
            .read_to_end(&mut front)?;
        let format = Format::recognize(&front)?;
        let reader = Whole::new(io::Cursor::new(front).chain(reader));
        let failed = reader.failed();
        let parser = match format {
            Format::Pcap => LegacyPcapReader::new(BUFFER_BYTES, reader).map(boxed),
            Format::Pcapng => PcapNGReader::new(BUFFER_BYTES, reader).map(boxed),
        };
        let parser = parser.map_err(|error| match (failed.take(), error) {
            (Some(error), _) => CaptureError::Read(error),
            (None, PcapError::Incomplete(_)) => CaptureError::CutHeader,
            (None, _) => CaptureError::Damaged {
                at: 0,
                packets: 0,
                problem: "its header is invalid",
            },
        })?;
        Ok(Self {
            format,
            parser,
            failed,
            section: Section::default(),
            packets: 0,
        })
    }

    /// The format that it was recognized as.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Shows every packet, in the order of the file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read to its end; the packets before are shown. Also returns the errors
    /// of `visit`.
    pub fn read<E: From<CaptureError>>(
        &mut self,
        mut visit: impl FnMut(Packet<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        loop {
            // For some blocks the parser subtracts header sizes without checking the length.
            if self
                .block_bytes()
                .is_some_and(|bytes| bytes < BLOCK_BYTES_MIN)
            {
                return Err(self.damaged(CONTRADICTION).into());
            }
            let step = match self.parser.next() {
                Ok((bytes, block)) => match self.section.packet(&block) {
                    Ok(packet) => {
                        self.packets += u64::from(packet.is_some());
                        packet.map_or(Ok(()), &mut visit)?;
                        Step::Consume(bytes)
                    }
                    Err(BlockError::Refused(error)) => return Err(error.into()),
                    Err(BlockError::Damaged(problem)) => Step::Damaged(problem),
                },
                Err(PcapError::Eof) => return Ok(()),
                Err(PcapError::Incomplete(_)) => Step::Refill,
                Err(PcapError::BufferTooSmall) => Step::Grow,
                Err(PcapError::UnexpectedEof) => Step::Cut,
                Err(_) => Step::Damaged(CONTRADICTION),
            };
            match step {
                Step::Consume(bytes) => self.parser.consume(bytes),
                Step::Damaged(problem) => return Err(self.damaged(problem).into()),
                _ if self.has_whole_block() => return Err(self.damaged(CONTRADICTION).into()),
                Step::Refill => self.refill()?,
                Step::Grow => self.grow()?,
                Step::Cut => return Err(self.cut().into()),
            }
        }
    }

    /// Whether all of the block that the parser cannot read is there: then more of the file does
    /// not help.
    fn has_whole_block(&self) -> bool {
        let whole = |length| self.parser.data().len() as u64 >= u64::from(length);
        self.block_bytes().is_some_and(whole)
    }

    /// Returns the length of the first block according to its header. A section may change the byte
    /// order: its own is unknown before it is complete.
    fn block_bytes(&self) -> Option<u32> {
        let data = self.parser.data();
        if self.format == Format::Pcap || data.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]) {
            return None;
        }
        let length = data.get(4..8)?.try_into().ok()?;
        Some(if self.section.is_big_endian {
            u32::from_be_bytes(length)
        } else {
            u32::from_le_bytes(length)
        })
    }

    fn refill(&mut self) -> Result<(), CaptureError> {
        let refilled = self.parser.refill().is_ok();
        match self.failed.take() {
            Some(error) => Err(CaptureError::Read(error)),
            None if refilled => Ok(()),
            None => Err(io::Error::from(io::ErrorKind::Other).into()),
        }
    }

    fn grow(&mut self) -> Result<(), CaptureError> {
        let size = self.parser.data().len().max(BUFFER_BYTES) * 2;
        if size > BLOCK_BYTES_MAX {
            return Err(self.damaged("a packet claims to exceed 16 MiB"));
        }
        self.parser.grow(size);
        self.refill()
    }

    fn cut(&self) -> CaptureError {
        let end = self.parser.consumed() + self.parser.data().len();
        let what = match self.format {
            Format::Pcap => format!("packet {}", self.packets + 1),
            Format::Pcapng => format!("the block after packet {}", self.packets),
        };
        CaptureError::Cut { end, what }
    }

    fn damaged(&self, problem: &'static str) -> CaptureError {
        CaptureError::Damaged {
            at: self.parser.consumed(),
            packets: self.packets,
            problem,
        }
    }
}

fn boxed<'a, P: PcapReaderIterator + 'a>(parser: P) -> Box<dyn PcapReaderIterator + 'a> {
    Box::new(parser)
}
