//! Decisions of `CrowdSec` as CSV: `cscli decisions list -o raw`, where `ip` is `Ip:192.0.2.1`, and
//! `cscli decisions import`, where `value` is the address.

use std::net::IpAddr;

use csv::StringRecord;

use super::{
    crowdsec::{self, Decision},
    csv::rows,
    json,
};
use crate::lists::reader::Reader;

/// Reads all rows.
pub fn read(reader: &mut Reader<'_>) {
    let mut head: Option<StringRecord> = None;
    // Go's writer and this reader agree on quotes. A comment before the header is for people only.
    rows(b',', reader, |line, row, reader| match &head {
        Some(head) => read_row(line, head, row, reader),
        None => head = Some(row.clone()),
    });
}
/// Reads the row at `line`; excerpts show only its first line.
fn read_row(line: &str, head: &StringRecord, row: &StringRecord, reader: &mut Reader<'_>) {
    let column = |name: &str| {
        let index = head.iter().position(|column| column.trim() == name)?;
        row.get(index)
            .map(str::trim)
            .filter(|text| !text.is_empty())
    };
    if row.len() != head.len() {
        let (fields, columns) = (row.len(), head.len());
        let message = format!("the row has {fields} fields, the header {columns}");
        return reader.bad(line, message, "write as many fields as the header has");
    }
    // An address may have colons, and no scope before it.
    let is_address = |text: &&str| text.parse::<IpAddr>().is_ok();
    let scoped = column("ip").filter(|text| !is_address(text));
    let scoped = scoped.and_then(|text| text.split_once(':'));
    let value = column("value").or(scoped.map(|(_, value)| value));
    let Some(value) = value.or(column("ip")) else {
        let hint = "write it under `value`, or as Ip:192.0.2.1 under `ip`";
        return reader.bad(line, "the address is missing", hint);
    };
    let text = |name: &str| column(name).map(Into::into);
    let scope = column("scope").or(scoped.map(|(scope, _)| scope));
    let decision = Decision {
        value: value.into(),
        duration: text("duration").or(text("expiration")),
        scope: scope.map(Into::into),
        kind: text("type").or(text("action")),
        scenario: text("reason").or(text("scenario")),
        simulated: column("simulated") == Some("true"),
    };
    crowdsec::take(json::part(line, value), &decision, reader);
}
