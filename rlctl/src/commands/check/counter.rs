//! The number of packets that matched the deciding entry.

use ratelimit_core::api::{Allow, Ban, CoveringEntry};

use crate::{output::printable, phrase};

/// `counter: 12 packets, 720 bytes`; of a list by all its entries, of a policy by all its sources;
/// nothing where that is not counted.
pub fn sentence(entry: &CoveringEntry) -> Option<String> {
    let (counter, by) = match entry {
        CoveringEntry::Allow(Allow {
            origin, counter, ..
        })
        | CoveringEntry::Ban(Ban {
            origin, counter, ..
        }) => {
            let by = origin
                .list_name()
                .map(|name| format!(", by all entries of {}", printable(name)));
            (counter, by.unwrap_or_default())
        }
        CoveringEntry::Policy {
            policy, counter, ..
        } => {
            let by = format!(", by all sources under `{}`", printable(policy));
            (counter, by)
        }
    };
    let (packets, bytes) = (phrase::packets(counter.packets?), counter.bytes?);
    Some(format!("counter: {packets}, {bytes} bytes{by}"))
}
