//! A column of a table: of a head that names it, or the only one that has addresses. Two columns
//! are a range where they are the first and the last address.

use csv::{ReaderBuilder, StringRecord, Trim};

use super::rule::{has_address, lets_through};
use crate::{
    diagnostic::Problem,
    lists::{
        address,
        reader::{Reader, Said},
        typo,
    },
};

/// The names of columns with addresses, the best first. Spaces and signs in a name are `_`.
const ADDRESSES: [&str; 43] = [
    "ip",
    "ip_address",
    "ipaddress",
    "ip_addr",
    "cidr",
    "prefix",
    "ip_prefix",
    "network",
    "subnet",
    "netblock",
    "address",
    "src_ip",
    "source_ip",
    "srcip",
    "sourceip",
    "src_addr",
    "src",
    "source",
    "attacker_ip",
    "attacker",
    "attackip",
    "remote_ip",
    "remote_address",
    "remoteaddress",
    "client_ip",
    "host_ip",
    "ipv4",
    "ipv6",
    "dst_ip",
    "dstip",
    "ip_range",
    "range",
    "indicator",
    "ioc",
    "ioc_value",
    "value",
    "observable",
    "ip4",
    "ip6",
    "ipv4_address",
    "ipv6_address",
    "ipv4_prefix",
    "ipv6_prefix",
];
pub const FIRSTS: [&str; 13] = [
    "start",
    "start_ip",
    "startip",
    "startaddress",
    "start_address",
    "startipaddress",
    "range_start",
    "from",
    "ip_from",
    "first",
    "first_ip",
    "low",
    "begin",
];
pub const LASTS: [&str; 13] = [
    "end",
    "end_ip",
    "endip",
    "endaddress",
    "end_address",
    "endipaddress",
    "range_end",
    "to",
    "ip_to",
    "last",
    "last_ip",
    "high",
    "finish",
];
const COUNTS: [&str; 10] = [
    "count",
    "hits",
    "attacks",
    "reports",
    "score",
    "abuse_confidence_score",
    "abuseconfidencescore",
    "total_reports",
    "num_reports",
    "occurrences",
];
const REASONS: [&str; 9] = [
    "reason",
    "comment",
    "description",
    "malware",
    "threat",
    "category",
    "categories",
    "tags",
    "name",
];
/// Columns with the length of a prefix, or its mask.
pub const MASKS: [&str; 10] = [
    "mask",
    "netmask",
    "subnet_mask",
    "masklen",
    "mask_length",
    "prefixlen",
    "prefix_length",
    "prefix",
    "cidr",
    "bits",
];
/// Columns with the action for an address.
pub const ACTIONS: [&str; 11] = [
    "action",
    "ruleaction",
    "rule_action",
    "access",
    "mode",
    "verdict",
    "decision",
    "policy",
    "classification",
    "disposition",
    "list_type",
];
/// The number of rows examined to find the column.
const LOOKED_AT: usize = 50;

/// The indices of the columns.
struct Columns {
    address: usize,
    /// The column with addresses of the other family.
    other: Option<usize>,
    mask: Option<usize>,
    action: Option<usize>,
    last: Option<usize>,
    count: Option<usize>,
    reason: Option<usize>,
    has_head: bool,
    /// Whether a head says which column it is, in the first row or in a comment.
    is_named: bool,
}

/// Calls `each` with every row and its first line.
pub fn rows(
    delimiter: u8,
    reader: &mut Reader<'_>,
    mut each: impl FnMut(&str, &StringRecord, &mut Reader<'_>),
) {
    let text = reader.text();
    let mut csv = records(text, delimiter);
    let mut row = StringRecord::new();
    while !reader.is_full() {
        match csv.read_record(&mut row) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => return reader.bad(text, error.to_string(), "write CSV"),
        }
        let start = row.position().map_or(0, csv::Position::byte);
        let start = usize::try_from(start).unwrap_or_default();
        let written = text.get(start..).unwrap_or_default();
        let mut lines = written.trim_start_matches(['\r', '\n']).lines();
        each(lines.next().unwrap_or_default(), &row, reader);
    }
}

/// Returns the delimiter if the first rows form a table.
pub fn delimiter(text: &str) -> Option<u8> {
    [b',', b';', b'\t', b'|'].into_iter().find(|delimiter| {
        let rows = sample(text, *delimiter);
        let columns = find(text, &rows, *delimiter).ok().flatten();
        // In a plain list, a tab or semicolon may also precede a comment.
        let is_plain = matches!(delimiter, b'\t' | b';');
        columns.is_some_and(|it| it.has_head || it.last.is_some() || it.address > 0 || !is_plain)
    })
}

/// Reads all rows.
pub fn read(reader: &mut Reader<'_>) {
    let text = reader.text();
    let delimiters = [b',', b';', b'\t', b'|'];
    let widths = delimiters.map(|it| sample(text, it).first().map_or(0, StringRecord::len));
    let widest = (0..delimiters.len()).max_by_key(|index| widths[*index]);
    let delimiter = delimiter(text).unwrap_or(delimiters[widest.unwrap_or_default()]);
    let columns = match find(text, &sample(text, delimiter), delimiter) {
        Ok(Some(columns)) => columns,
        Ok(None) => {
            let hint = "write a head that calls one `ip` or `cidr`";
            let first = text
                .lines()
                .find(|line| !line.trim().is_empty() && !line.starts_with('#'));
            let first = first.unwrap_or(text);
            let mut cells = first.split(char::from(delimiter)).map(str::trim);
            return match cells.find(|cell| typo::meant(cell).is_some()) {
                Some(cell) => reader.report(cell, address::not_an_address(cell)),
                None => reader.bad(first, "no column has addresses", hint),
            };
        }
        Err(problem) => {
            let first = text
                .lines()
                .find(|line| !line.trim().is_empty() && !line.starts_with('#'));
            return reader.report(first.unwrap_or(text), problem);
        }
    };
    let mut is_first = true;
    rows(delimiter, reader, |line, row, reader| {
        if std::mem::take(&mut is_first) {
            reader.note(chosen(&columns, row));
            if columns.has_head {
                return;
            }
        }
        take(line, row, &columns, reader);
    });
}

fn chosen(columns: &Columns, head: &StringRecord) -> String {
    let name = |index: usize| match head.get(index).filter(|_| columns.has_head) {
        Some(name) => format!("`{name}`"),
        None => (index + 1).to_string(),
    };
    if let Some(last) = columns.last {
        let (first, last) = (name(columns.address), name(last));
        return format!("ranges from column {first} to column {last}");
    }
    let all = [Some(columns.address), columns.other];
    let all: Vec<String> = all.into_iter().flatten().map(name).collect();
    format!("addresses from column {}", all.join(" and "))
}

fn take(line: &str, row: &StringRecord, columns: &Columns, reader: &mut Reader<'_>) {
    let cell = |index: usize| row.get(index).unwrap_or_default();
    if columns
        .action
        .is_some_and(|action| lets_through(cell(action)))
    {
        return reader.skip("let through there");
    }
    let other = columns.other.map(cell).unwrap_or_default();
    if other.is_empty() || !cell(columns.address).is_empty() {
        take_cell(line, columns.address, row, columns, reader);
    }
    if !other.is_empty() {
        take_cell(
            line,
            columns.other.unwrap_or_default(),
            row,
            columns,
            reader,
        );
    }
}

fn take_cell(
    line: &str,
    column: usize,
    row: &StringRecord,
    columns: &Columns,
    reader: &mut Reader<'_>,
) {
    let cell = |index: usize| row.get(index).unwrap_or_default();
    let written = cell(column);
    let last = columns.last.map(cell);
    let mask = columns
        .mask
        .map(cell)
        .filter(|mask| is_mask(mask) && !written.contains('/'));
    let part = super::json::part(line, written);
    let said = Said {
        count: columns.count.and_then(|index| cell(index).parse().ok()),
        reason: columns.reason.map(cell).unwrap_or_default(),
        ..Said::default()
    };
    match last {
        Some(last) => reader.take(part, &format!("{written}-{last}"), said),
        None if written.is_empty() => reader.skip("without an address"),
        None if mask.is_some() => {
            let mask = mask.unwrap_or_default();
            let masked = typo::masked(written, mask).map(|prefix| prefix.to_string());
            let written = masked.unwrap_or_else(|| format!("{written}/{mask}"));
            reader.take(part, &written, said);
        }
        None => match address_of(written) {
            Some(address) => reader.take(part, address, said),
            // A table of indicators has names and hashes too.
            None if columns.is_named && !has_address(written) => {
                reader.skip("of no address but something else");
            }
            None => reader.take(part, written, said),
        },
    }
}

/// Whether a cell is the length of a prefix, or its mask.
pub fn is_mask(cell: &str) -> bool {
    cell.parse().is_ok_and(|bits: u32| bits <= 128) || typo::masked("0.0.0.0", cell).is_some()
}

/// The address of a cell, which may have a port behind it.
pub fn address_of(cell: &str) -> Option<&str> {
    // A space before its quotes makes them part of it.
    let cell = cell.trim_matches('"');
    if address::is_one(cell, false) {
        return Some(cell);
    }
    // MISP writes `192.0.2.1|443`.
    let (host, port) = cell.rsplit_once([':', '|'])?;
    let host = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    (port.parse::<u16>().is_ok() && address::is_one(host, false)).then_some(host)
}

fn records(text: &str, delimiter: u8) -> csv::Reader<&[u8]> {
    ReaderBuilder::new()
        .flexible(true)
        .has_headers(false)
        .delimiter(delimiter)
        .trim(Trim::All)
        .comment(Some(b'#'))
        .from_reader(text.as_bytes())
}

fn sample(text: &str, delimiter: u8) -> Vec<StringRecord> {
    records(text, delimiter)
        .into_records()
        .map_while(Result::ok)
        .take(LOOKED_AT)
        .collect()
}

/// Finds the columns; `None` if the text is not a table of addresses.
fn find(text: &str, rows: &[StringRecord], delimiter: u8) -> Result<Option<Columns>, Problem> {
    let is_table = |row: &&StringRecord| {
        // A single column is a table only with a header.
        let is_head = ADDRESSES.contains(&name(row.get(0).unwrap_or_default()).as_str());
        is_head || row.iter().filter(|cell| !cell.is_empty()).count() > 1
    };
    let Some(first) = rows.first().filter(is_table) else {
        return Ok(None);
    };
    let commented = head_in_comment(text, delimiter, first.len());
    let has_head = commented.is_none()
        && !first.iter().any(|cell| address_of(cell).is_some())
        && first
            .iter()
            .all(|cell| !cell.starts_with(|c: char| c.is_ascii_digit()));
    let rows = if has_head { &rows[1..] } else { rows };
    let head: Vec<String> = match &commented {
        Some(head) => head.iter().map(name).collect(),
        None if has_head => first.iter().map(name).collect(),
        None => Vec::new(),
    };
    let named = |names: &[&str]| {
        let mut columns = names
            .iter()
            .filter_map(|name| head.iter().position(|it| it == name));
        columns.next()
    };
    let share = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.filter(|cell| address_of(cell).is_some()).count()
    };
    let all = |address: usize, last: Option<usize>| {
        let (count, reason) = (named(&COUNTS), named(&REASONS));
        let is_of_v6 = |column: usize| head.get(column).is_some_and(|name| name.contains('6'));
        let mut others = (0..head.len()).filter(|column| {
            let name = head[*column].as_str();
            ADDRESSES.contains(&name) && is_of_v6(*column) != is_of_v6(address)
        });
        Ok(Some(Columns {
            address,
            other: others.next().filter(|_| last.is_none()),
            mask: named(&MASKS).filter(|mask| *mask != address),
            action: named(&ACTIONS),
            last,
            count,
            reason,
            has_head,
            is_named: !head.is_empty(),
        }))
    };
    let of_addresses = ADDRESSES
        .iter()
        .filter_map(|name| head.iter().position(|it| it == name));
    let mut of_addresses = of_addresses.filter(|column| rows.is_empty() || share(*column) > 0);
    if let Some(column) = of_addresses.next() {
        return all(column, None);
    }
    if let (Some(start), Some(end)) = (named(&FIRSTS), named(&LASTS))
        && share(start) > 0
        && share(end) > 0
    {
        return all(start, Some(end));
    }
    // Nine of ten: a bad line is reported, and does not hide the others.
    let columns = (0..first.len()).filter(|column| share(*column) * 10 > rows.len() * 9);
    let columns: Vec<usize> = columns.collect();
    match columns.as_slice() {
        [] => Ok(None),
        [column] => {
            // `remoteip=192.0.2.1,192.0.2.2` is no table.
            let hides = |cell: &str| {
                let mut words = cell.split(['=', ' ']);
                words.any(|word| address::is_one(word, true))
            };
            let has_more = |other: &usize| {
                let mut cells = rows.iter().filter_map(|row| row.get(*other));
                other != column && cells.any(hides)
            };
            match (0..first.len()).find(has_more) {
                Some(other) => Err(both(*column.min(&other), *column.max(&other))),
                None => all(*column, None),
            }
        }
        [start, end] if *end == start + 1 && first.len() > 2 && are_ranges(rows, *start) => {
            all(*start, Some(*end))
        }
        [start, end, ..] => Err(both(*start, *end)),
    }
}

fn both(start: usize, end: usize) -> Problem {
    let (start, end) = (start + 1, end + 1);
    let message = format!("the columns {start} and {end} both have addresses");
    let hint = "keep one of them, or write a head: ip, or start and end";
    Problem::new(message, hint)
}

/// Whether all rows of a text have the same number of columns, whatever they contain.
pub fn is_table(text: &str) -> bool {
    [b',', b';', b'\t', b'|'].into_iter().any(|delimiter| {
        let rows = sample(text, delimiter);
        let widths = rows.iter().map(StringRecord::len);
        rows.len() > 1 && widths.min().is_some_and(|least| least > 2)
    })
}

fn are_ranges(rows: &[StringRecord], start: usize) -> bool {
    rows.iter().all(|row| {
        let range = format!(
            "{}-{}",
            row.get(start).unwrap_or_default(),
            row.get(start + 1).unwrap_or_default()
        );
        address::is_one(&range, false)
    })
}

/// Returns the header of a table in a comment, as in files of abuse.ch.
fn head_in_comment(text: &str, delimiter: u8, columns: usize) -> Option<StringRecord> {
    let comments = text
        .lines()
        .map(str::trim)
        .take_while(|line| line.is_empty() || line.starts_with('#'));
    let heads = comments.filter_map(|line| {
        let line = line.trim_start_matches('#').trim();
        let mut csv = ReaderBuilder::new()
            .has_headers(false)
            .delimiter(delimiter)
            .trim(Trim::All)
            .from_reader(line.as_bytes());
        csv.records().next()?.ok()
    });
    let is_named = |head: &StringRecord| {
        let mut names = head.iter().map(name);
        names.any(|name| ADDRESSES.contains(&name.as_str()))
    };
    heads
        .filter(|head| head.len() == columns && is_named(head))
        .last()
}

/// The name of a column, as the lists above have it.
pub fn name(cell: &str) -> String {
    let cell = cell.trim_matches(['#', '"', ' ']).to_lowercase();
    cell.replace(|c: char| !c.is_alphanumeric(), "_")
}
