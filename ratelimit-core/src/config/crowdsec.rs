//! The local API of `CrowdSec`: `[crowdsec]`.

mod address;
mod key;

use std::{ops::RangeInclusive, time::Duration};

pub use self::{
    address::{Address, AddressError},
    key::{Key, Secret},
};
use super::{
    Crowdsec,
    report::{At, Report},
    table::{Section, Value},
};
use crate::diagnostic::Problem;

/// How often it is asked unless the configuration says otherwise.
const EVERY: Duration = Duration::from_secs(10);
/// How often it may be asked.
const EVERY_RANGE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(1);

const URL_EXAMPLE: &str = "url = \"http://127.0.0.1:8080\"";
const KEY_HINT: &str = "write key_file = \"/etc/ratelimit/crowdsec.key\", or key = \"...\": `cscli bouncers add ratelimit` prints it";

/// Reads `[crowdsec]`; `None` in place of what is wrong, and reported.
pub(super) fn read(mut section: Section<'_>, report: &mut Report) -> Option<At<Crowdsec>> {
    let url = section.require("url", &format!("write {URL_EXAMPLE}"), report);
    let address = url.and_then(|value| read_address(value, report));
    let key = read_key(&mut section, report);
    let every = section.take("every");
    let every = every.map_or(Some(EVERY), |value| {
        let every = value.duration_in(&EVERY_RANGE, "10s", report)?;
        Some(every.value)
    });
    let spot = section.spot.clone();
    section.finish(report);
    let value = Crowdsec {
        address: address?,
        key: key?,
        every: every?,
    };
    Some(At { value, spot })
}

fn read_address(value: Value<'_>, report: &mut Report) -> Option<Address> {
    let At { value, spot } = value.text(URL_EXAMPLE, report)?;
    let address = value.parse::<Address>();
    address
        .map_err(|error| report.add(&spot, Problem::new(error.to_string(), error.hint())))
        .ok()
}

fn read_key(section: &mut Section<'_>, report: &mut Report) -> Option<Key> {
    match (section.take("key"), section.take("key_file")) {
        (Some(key), None) => {
            let text = key.text("key = \"...\"", report)?;
            let secret = Secret::new(&text.value).map(Key::Given);
            if secret.is_none() {
                // Not at the key itself: the line would be shown, and logged.
                let message = "the `key` of [crowdsec] is no key: it is one word, without blanks";
                report.add(&section.spot, Problem::new(message, KEY_HINT));
            }
            secret
        }
        (None, Some(file)) => {
            let example = "key_file = \"/etc/ratelimit/crowdsec.key\"";
            let path = file.absolute_path(example, report)?;
            Some(Key::File(path.value))
        }
        (Some(_), Some(file)) => {
            let message = "[crowdsec] has both `key` and `key_file`";
            report.add(&file.spot, Problem::new(message, "remove one of them"));
            None
        }
        (None, None) => {
            section.lacks("key_file", KEY_HINT, report);
            None
        }
    }
}
