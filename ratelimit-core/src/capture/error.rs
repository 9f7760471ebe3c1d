//! Errors that end the reading of a capture.

use std::io;

/// An error in a capture. Packets before it are valid.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file itself.
    #[error("cannot read it: {0}")]
    Read(#[from] io::Error),
    /// Nothing at all.
    #[error("it is empty")]
    Empty,
    /// A compressed file.
    #[error("it is compressed with {name}: write `{program} -dc CAPTURE | rlctl simulate - ...`")]
    Compressed {
        /// The format.
        name: &'static str,
        /// The program that decompresses it.
        program: &'static str,
    },
    /// Not a pcap or pcapng file.
    #[error(
        "it is neither pcap nor pcapng (first bytes {0}); convert it with `editcap -F pcap CAPTURE \
         NEW`"
    )]
    NotACapture(String),
    /// The file ends within its header.
    #[error("it is cut in the middle of its header")]
    CutHeader,
    /// The file ends too early.
    #[error("it is cut at byte {end}, in the middle of {what}")]
    Cut {
        /// The offset at which the file ends.
        end: usize,
        /// The truncated part.
        what: String,
    },
    /// Something that the format does not allow.
    #[error("it is damaged at byte {at}, after {packets} packets: {problem}")]
    Damaged {
        /// The offset of the damaged block.
        at: usize,
        /// The packets before it.
        packets: u64,
        /// A description of the damage.
        problem: &'static str,
    },
    /// Frames that are not understood.
    #[error(
        "its packets are {0}, and only those of Ethernet, Linux cooked, loopback, PPP, Cisco HDLC \
         and raw IP captures are understood; write `editcap -L -C BYTES -T rawip CAPTURE NEW` with \
         the length of the headers before IP, and read NEW"
    )]
    LinkType(String),
    /// Blocks of a kind that is not written any more.
    #[error("it has obsolete packet blocks: write `editcap -F pcap CAPTURE NEW`, and simulate NEW")]
    ObsoleteBlock,
}
