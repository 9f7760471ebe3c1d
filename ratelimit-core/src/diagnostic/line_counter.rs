//! Positions in a text, as lines and columns.

use smart_default::SmartDefault;

/// A position from which the next one is found without the text before it: lists have many lines,
/// or one that is very long.
#[derive(Clone, Copy, Debug, SmartDefault)]
pub struct LineCounter {
    /// The offset in bytes.
    offset: usize,
    /// The line number, from 1.
    #[default = 1]
    pub line: usize,
    /// In characters, from 1 on.
    #[default = 1]
    pub column: usize,
}

impl LineCounter {
    /// The position at `offset` bytes in the same `text`.
    pub fn at(self, text: &str, offset: usize) -> Self {
        let offset = text.floor_char_boundary(offset);
        let Some(between) = text.get(self.offset..offset) else {
            return Self::default().at(text, offset);
        };
        let (column, rest) = match between.rfind('\n') {
            Some(newline) => (1, &between[newline + 1..]),
            None => (self.column, between),
        };
        Self {
            offset,
            line: self.line + between.matches('\n').count(),
            column: column + rest.chars().count(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_the_same_wherever_the_last_one_was() {
        const TEXT: &str = "one\n\u{fc}b\u{fc}\n\nlast";
        let places = [
            (0, 1, 1),
            (2, 1, 3),
            (4, 2, 1),
            (7, 2, 3),
            (10, 3, 1),
            (15, 4, 5),
        ];
        for last in 0..TEXT.len() {
            let last = LineCounter::default().at(TEXT, last);
            for (offset, line, column) in places {
                let place = last.at(TEXT, offset);
                assert_eq!((place.line, place.column), (line, column), "{offset}");
            }
        }
    }
}
