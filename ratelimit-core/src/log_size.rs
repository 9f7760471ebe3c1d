//! The number and the length of sliding logs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The capacity of the sliding logs.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LogSize {
    /// Packets of the largest limit; 0 where no limit is a sliding log.
    pub times: u32,
    /// Logs, one for each source and limit.
    pub logs: u32,
}

impl LogSize {
    /// No logs at all.
    pub const NONE: Self = Self { times: 0, logs: 1 };

    /// The words of a log: its head, and its times.
    pub const fn words(self) -> u32 {
        self.times + 1
    }

    /// The memory of all logs. The kernel takes it when the map is made, and some for its keys and
    /// lists besides.
    pub const fn bytes(self) -> u64 {
        self.logs as u64 * self.value_bytes() as u64
    }

    /// The bytes of a log.
    pub const fn value_bytes(self) -> u32 {
        self.words() * u64::BITS / u8::BITS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_take_eight_bytes_a_packet_and_eight_for_the_head() {
        assert_eq!(
            LogSize {
                times: 5,
                logs: 1000
            }
            .bytes(),
            48_000
        );
        assert_eq!(LogSize::NONE.bytes(), 8);
    }
}
