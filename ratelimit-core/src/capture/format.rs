//! The format of a file, detected by its first bytes, not by its name.

use super::CaptureError;

/// The formats of captures.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// The classic one (draft-ietf-opsawg-pcap).
    Pcap,
    /// The next generation (draft-ietf-opsawg-pcapng).
    Pcapng,
}

/// The bytes by which a format is recognized.
pub const MAGIC_BYTES: usize = 4;

/// Microseconds, nanoseconds, and the format of Kuznetzov's patch, all as little-endian files
/// begin.
const PCAP: [u32; 3] = [0xa1b2_c3d4, 0xa1b2_3c4d, 0xa1b2_cd34];
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// Signature, format, and the program that takes files out of it.
const COMPRESSED: [(&[u8], &str, &str); 4] = [
    (&[0x1f, 0x8b], "gzip", "gzip"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "zstd", "zstd"),
    (&[0xfd, b'7', b'z', b'X'], "xz", "xz"),
    (b"BZh", "bzip2", "bzip2"),
];

impl Format {
    /// The format of a file that begins with `front`, its first [`MAGIC_BYTES`] or all that there
    /// are.
    pub(super) fn recognize(front: &[u8]) -> Result<Self, CaptureError> {
        if front.is_empty() {
            return Err(CaptureError::Empty);
        }
        for (signature, name, program) in COMPRESSED {
            if front.starts_with(signature) {
                return Err(CaptureError::Compressed { name, program });
            }
        }
        let pcap = PCAP.map(u32::to_le_bytes);
        let swapped = PCAP.map(u32::to_be_bytes);
        let is = |magic: &[u8; MAGIC_BYTES]| magic.starts_with(front);
        if is(&PCAPNG) {
            Ok(Self::Pcapng)
        } else if pcap.iter().chain(&swapped).any(is) {
            Ok(Self::Pcap)
        } else {
            let bytes: Vec<String> = front.iter().map(|byte| format!("{byte:02x}")).collect();
            Err(CaptureError::NotACapture(bytes.join(" ")))
        }
    }
}
