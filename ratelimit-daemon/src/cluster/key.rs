//! What nodes ban, as they write it.

use ratelimit_cluster::{Key, key::KEY_MAX};
use ratelimit_core::prefix::Prefix;

/// A prefix.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BanKey(pub Prefix);

/// What a key of a prefix begins with; others are for what other releases may share.
const PREFIX: u8 = 0;
const _: () = assert!(Prefix::BYTES < KEY_MAX);

impl Key for BanKey {
    fn write(&self, to: &mut Vec<u8>) {
        to.push(PREFIX);
        to.extend_from_slice(&self.0.to_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (kind, prefix) = bytes.split_first()?;
        let prefix = (*kind == PREFIX).then(|| Prefix::from_bytes(prefix))??;
        Some(Self(prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_read_as_it_was_written() {
        for text in [
            "0.0.0.0/0",
            "203.0.113.7",
            "203.0.113.0/24",
            "2001:db8::/48",
            "::1",
        ] {
            let key = BanKey(text.parse().unwrap());
            let mut bytes = Vec::new();
            key.write(&mut bytes);
            assert_eq!(BanKey::read(&bytes), Some(key));
            bytes.push(0);
            assert_eq!(BanKey::read(&bytes), None, "a byte too many");
        }
        assert_eq!(BanKey::read(&[]), None);
        assert_eq!(
            BanKey::read(&[9, 4, 32, 1, 2, 3, 4]),
            None,
            "of another kind"
        );
    }
}
