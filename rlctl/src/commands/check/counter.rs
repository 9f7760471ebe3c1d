//! The number of packets that matched the deciding entry.

use ratelimit_core::api::{Allow, Ban, Entry};

use crate::{output::printable, phrase};

/// `counter: 12 packets, 720 bytes`; of a list by all its entries, of a policy by all its sources;
/// nothing where that is not counted.
pub fn sentence(entry: &Entry) -> Option<String> {
    let (counter, by) = match entry {
        Entry::Allow(Allow {
            origin, counter, ..
        })
        | Entry::Ban(Ban {
            origin, counter, ..
        }) => {
            let by = origin
                .list_name()
                .map(|name| format!(", by all entries of {}", printable(name)));
            (counter, by.unwrap_or_default())
        }
        Entry::Policy {
            policy, counter, ..
        } => {
            let by = format!(", by all sources under `{}`", printable(policy));
            (counter, by)
        }
    };
    let (packets, bytes) = (phrase::packets(counter.packets?), counter.bytes?);
    Some(format!("counter: {packets}, {bytes} bytes{by}"))
}
