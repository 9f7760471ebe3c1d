//! The local API of `CrowdSec`: `[crowdsec]`.

mod address;
mod key;

use std::{ops::RangeInclusive, time::Duration};

pub use self::{
    address::{Address, AddressError},
    key::{Key, Secret},
};
use super::{report::At, table::Section};

/// The default polling interval.
const EVERY: Duration = Duration::from_secs(10);
/// The valid range of polling intervals.
const EVERY_RANGE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(1);

const URL_EXAMPLE: &str = "url = \"http://127.0.0.1:8080\"";
const KEY_HINT: &str = "write key_file = \"/etc/ratelimit/crowdsec.key\", or key = \"...\": `cscli \
                        bouncers add ratelimit` prints it";

/// A local API of `CrowdSec`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Crowdsec {
    /// The address.
    pub address: Address,
    /// The key that it knows this bouncer by.
    pub key: Key,
    /// The polling interval.
    pub every: Duration,
}

/// Reads `[crowdsec]`; `None` if errors were reported.
pub(super) fn read(mut section: Section<'_>) -> Option<At<Crowdsec>> {
    let url = section.require("url", &format!("write {URL_EXAMPLE}"));
    let address = url.and_then(|value| value.parsed::<Address>(URL_EXAMPLE));
    let key = read_key(&mut section, ["key", "key_file"], KEY_HINT, |text| {
        let wrong = "the `key` of [crowdsec] must be one word without blanks";
        Secret::new(text).ok_or_else(|| wrong.to_owned())
    });
    let every = section.duration("every", &EVERY_RANGE, EVERY);
    let spot = section.finish();
    let value = Crowdsec {
        address: address?,
        key: key?,
        every,
    };
    Some(At { value, spot })
}

/// Reads a secret from one key, or from the file that another key names.
pub(super) fn read_key(
    section: &mut Section<'_>,
    [given, in_file]: [&'static str; 2],
    hint: &str,
    read: impl FnOnce(&str) -> Result<Secret, String>,
) -> Option<Key> {
    match (section.take(given), section.take(in_file)) {
        (Some(value), None) => match read(value.text(&format!("{given} = \"...\""))?) {
            Ok(secret) => Some(Key::Given(secret)),
            Err(message) => {
                // Not at the secret itself: the line would be shown, and logged.
                section.complain(message, hint);
                None
            }
        },
        (None, Some(value)) => {
            let title = section.title.trim_matches(['[', ']']);
            let example = format!("{in_file} = \"/etc/ratelimit/{title}.{given}\"");
            value.absolute_path(&example).map(Key::File)
        }
        (Some(_), Some(file)) => {
            let message = format!("{} has both `{given}` and `{in_file}`", section.title);
            file.refuse(message, "remove one of them")
        }
        (None, None) => {
            section.lacks(in_file, hint);
            None
        }
    }
}
