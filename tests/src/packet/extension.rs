//! The IPv6 extension headers (RFC 8200, RFC 4302, RFC 6275).

/// An extension header. `units` is its length field.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Extension {
    /// Hop-by-hop options, of `8 * units + 8` bytes.
    HopByHop(u8),
    /// A routing header, of `8 * units + 8` bytes.
    Routing(u8),
    /// Destination options, of `8 * units + 8` bytes.
    Destination(u8),
    /// A mobility header, of `8 * units + 8` bytes.
    Mobility(u8),
    /// An authentication header, of `4 * units + 8` bytes.
    Authentication(u8),
    /// A fragment header: 8 bytes.
    Fragment {
        /// The offset in the packet, in units of 8 bytes.
        offset: u16,
        /// Whether further fragments follow.
        more: bool,
    },
}

impl Extension {
    /// One of each kind, of minimal length.
    pub const ALL: [Self; 6] = [
        Self::HopByHop(0),
        Self::Routing(0),
        Self::Destination(0),
        Self::Mobility(0),
        Self::Authentication(1),
        Self::Fragment {
            offset: 0,
            more: false,
        },
    ];

    /// The protocol number.
    pub const fn number(self) -> u8 {
        match self {
            Self::HopByHop(_) => 0,
            Self::Routing(_) => 43,
            Self::Fragment { .. } => 44,
            Self::Authentication(_) => 51,
            Self::Destination(_) => 60,
            Self::Mobility(_) => 135,
        }
    }

    /// The header; its first byte is that of the next header's number.
    pub(super) fn header(self) -> Vec<u8> {
        match self {
            Self::Fragment { offset, more } => {
                let [high, low] = (offset << 3 | u16::from(more)).to_be_bytes();
                vec![59, 0, high, low, 0, 0, 0, 7]
            }
            Self::Authentication(units) => header(units, usize::from(units) * 4 + 8),
            Self::HopByHop(units)
            | Self::Routing(units)
            | Self::Destination(units)
            | Self::Mobility(units) => header(units, usize::from(units) * 8 + 8),
        }
    }
}

/// Padding options of type 0 fill the header: they are single bytes of zero.
fn header(units: u8, bytes: usize) -> Vec<u8> {
    let mut header = vec![59, units];
    header.resize(bytes, 0);
    header
}
