//! Removes redundant entries: duplicates, and those inside a wider one that lasts as long.

use jiff::Timestamp;

use super::reading::Entry;

/// The numbers of removed entries.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Merged {
    /// Number of duplicates; the one with the latest expiry is kept.
    pub duplicates: usize,
    /// They lie in a wider one.
    pub covered: usize,
}

/// Sorts entries by prefix, and leaves out redundant ones.
pub fn merge(entries: &mut Vec<Entry>) -> Merged {
    entries.sort_by_key(|entry| entry.prefix);
    let mut merged = Merged::default();
    // The entries around the current one, widest first, each ending later than those around it.
    let mut around: Vec<Entry> = Vec::new();
    let mut kept = 0;
    for index in 0..entries.len() {
        let entry = entries[index];
        while around
            .last()
            .is_some_and(|outer| !outer.prefix.covers(entry.prefix))
        {
            around.pop();
        }
        match around.last_mut() {
            Some(outer) if outer.prefix == entry.prefix => {
                merged.duplicates += 1;
                if end(&entry) > end(outer) {
                    // Nothing came between them: it is the one that was kept last.
                    *outer = entry;
                    entries[kept - 1] = entry;
                }
                continue;
            }
            Some(outer) if end(outer) >= end(&entry) => {
                merged.covered += 1;
                // It may occur again with a later expiry.
                continue;
            }
            _ => {}
        }
        around.push(entry);
        entries[kept] = entry;
        kept += 1;
    }
    entries.truncate(kept);
    merged
}

fn end(entry: &Entry) -> Timestamp {
    entry.until.unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lists::ReasonId;

    #[test]
    fn entries_are_sorted_and_stand_once() {
        check("10.0.0.9 10.0.0.1 10.0.0.9", "10.0.0.1 10.0.0.9", (1, 0));
        check("::1 10.0.0.1", "10.0.0.1 ::1", (0, 0));
    }

    #[test]
    fn what_lies_in_a_wider_one_is_left_out() {
        check(
            "10.1.2.3 10.0.0.0/8 10.1.0.0/16 11.0.0.0/8",
            "10.0.0.0/8 11.0.0.0/8",
            (0, 2),
        );
        check(
            "10.0.0.0/8@5 10.0.0.0/16@4 10.0.0.0/24@5",
            "10.0.0.0/8@5",
            (0, 2),
        );
    }

    #[test]
    fn what_holds_longer_than_the_wider_one_stays() {
        check(
            "10.0.0.0/8@5 10.1.0.0/16@9 10.1.1.0/24@7 10.1.2.0/24",
            "10.0.0.0/8@5 10.1.0.0/16@9 10.1.2.0/24",
            (0, 1),
        );
    }

    #[test]
    fn of_two_the_one_that_holds_longer_is_kept() {
        check("10.0.0.1@5 10.0.0.1@9 10.0.0.1@7", "10.0.0.1@9", (2, 0));
        check(
            "10.0.0.0/8@5 10.0.0.1@4 10.0.0.1@9 10.0.0.0/8@3",
            "10.0.0.0/8@5 10.0.0.1@9",
            (1, 1),
        );
    }

    fn check(entries: &str, expected: &str, (duplicates, covered): (usize, usize)) {
        let mut entries: Vec<Entry> = entries.split(' ').map(entry).collect();
        let merged = merge(&mut entries);
        let texts: Vec<String> = entries.iter().map(text).collect();
        assert_eq!(texts.join(" "), expected);
        assert_eq!(
            merged,
            Merged {
                duplicates,
                covered
            }
        );
    }

    /// `10.0.0.1`, or `10.0.0.1@5` for one that ends.
    fn entry(text: &str) -> Entry {
        let (prefix, until) = text.split_once('@').unwrap_or((text, ""));
        Entry {
            prefix: prefix.parse().unwrap(),
            until: until
                .parse()
                .ok()
                .map(|second| Timestamp::from_second(second).unwrap()),
            reason: ReasonId::NONE,
            facts: 0,
        }
    }

    fn text(entry: &Entry) -> String {
        let until = entry.until.map(|until| format!("@{}", until.as_second()));
        format!("{}{}", entry.prefix, until.unwrap_or_default())
    }
}
