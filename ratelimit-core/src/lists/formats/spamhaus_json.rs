//! DROP of Spamhaus as JSON lines: `{"cidr":"192.0.2.0/24","sblid":"SBL1","rir":"arin"}`, and at
//! the end how many they are.
//!
//! <https://www.spamhaus.org/blocklists/do-not-route-or-peer/>

use std::borrow::Cow;

use serde::Deserialize;

use super::json;
use crate::lists::reader::{Reader, Said};

#[derive(Deserialize)]
struct Line<'t> {
    #[serde(borrow)]
    cidr: Option<Cow<'t, str>>,
    #[serde(borrow)]
    sblid: Option<Cow<'t, str>>,
    #[serde(rename = "type", borrow)]
    kind: Option<Cow<'t, str>>,
    records: Option<usize>,
}

/// Reads all lines.
pub fn read(reader: &mut Reader<'_>) {
    let mut lines = 0;
    for text in reader.text().lines().flat_map(json::documents) {
        let Some(line) = json::parse::<Line<'_>>(text, reader) else {
            continue;
        };
        if line.kind.as_deref() == Some("metadata") {
            if let Some(records) = line.records.filter(|records| *records != lines) {
                let message = format!("the list claims {records} entries but has {lines}");
                reader.bad(text, message, "fetch it again: a part of it is missing");
            }
            // Another list may follow, with its own metadata.
            lines = 0;
            continue;
        }
        lines += 1;
        let Some(cidr) = line.cidr else {
            let hint = "write {\"cidr\":\"192.0.2.0/24\"}";
            reader.bad(text, "there is no `cidr`", hint);
            continue;
        };
        let said = Said {
            reason: line.sblid.as_deref().unwrap_or_default(),
            ..Said::default()
        };
        reader.take(json::part(text, &cidr), &cidr, said);
    }
}
