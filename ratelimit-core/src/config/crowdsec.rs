//! The local API of `CrowdSec`: `[crowdsec]`.

mod address;
mod key;

use std::{ops::RangeInclusive, path::PathBuf, time::Duration};

pub use self::{
    address::{Address, AddressError},
    key::{Key, Secret},
};
use super::{
    Crowdsec,
    report::{At, Report},
    table::{Section, Value},
};
use crate::{diagnostic::Problem, quantity};

/// How often it is asked unless the configuration says otherwise.
const EVERY: Duration = Duration::from_secs(10);
/// How often it may be asked.
const EVERY_RANGE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(1);

const URL_EXAMPLE: &str = "url = \"http://127.0.0.1:8080\"";
const KEY_HINT: &str = "write key_file = \"/etc/ratelimit/crowdsec.key\", or key = \"...\": `cscli bouncers add ratelimit` prints it";

/// Reads `[crowdsec]`; `None` in place of what is wrong, and reported.
pub(super) fn read(mut section: Section<'_>, report: &mut Report) -> Option<At<Crowdsec>> {
    let url = section.take("url");
    if url.is_none() {
        section.lacks("url", &format!("write {URL_EXAMPLE}"), report);
    }
    let address = url.and_then(|value| read_address(value, report));
    let key = read_key(&mut section, report);
    let every = section.take("every");
    let every = every.map_or(Some(EVERY), |value| read_every(value, report));
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
            let At { value, spot } = file.text(example, report)?;
            let path = PathBuf::from(&value);
            if path.is_absolute() {
                return Some(Key::File(path));
            }
            let message = format!("`{value}` is not an absolute path");
            report.add(&spot, Problem::new(message, format!("write {example}")));
            None
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

fn read_every(value: Value<'_>, report: &mut Report) -> Option<Duration> {
    let At { value, spot } = value.text("every = \"10s\"", report)?;
    let every = match quantity::parse_duration(&value) {
        Ok(every) => every,
        Err(error) => {
            report.add(&spot, Problem::from(error));
            return None;
        }
    };
    if EVERY_RANGE.contains(&every) {
        return Some(every);
    }
    let message = format!("`every` is {value}, which is not between 1s and 1h");
    report.add(&spot, Problem::new(message, "write every = \"10s\""));
    None
}
