//! The rows of a table. Each ends with a checksum, which detects damaged values: SQLite checks the
//! structure of its file, but not the values.

use anyhow::{Context, ensure};
use ratelimit_core::prefix::Prefix;
use rusqlite::{
    Connection, Row, params, params_from_iter,
    types::{ToSql, ToSqlOutput, ValueRef},
};

use crate::control::time::ban_clock::BanClock;

pub struct Table {
    pub name: &'static str,
    /// The query for its rows: all values except `id`, in the order of the columns.
    pub rows: &'static str,
    /// The statement that writes a row, replacing one with the same key.
    pub put: &'static str,
    /// The columns of these rows that may be NULL.
    pub nullable: &'static [usize],
}

impl Table {
    /// Reads all rows. Fails if one is damaged.
    pub fn read<T>(
        &self,
        connection: &Connection,
        mut read: impl FnMut(&Row<'_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<Vec<T>> {
        let mut statement = connection.prepare(self.rows)?;
        let mut rows = statement.query([])?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            let row = self.check(row).and_then(|()| read(row));
            all.push(row.with_context(|| format!("reading a row of `{}`", self.rows))?);
        }
        Ok(all)
    }

    /// Fails if the checksum of a row is wrong.
    pub fn check(&self, row: &Row<'_>) -> anyhow::Result<()> {
        let last = row.as_ref().column_count() - 1;
        let sum = self.sum((0..last).map(|column| row.get_ref_unwrap(column)));
        ensure!(sum == row.get::<_, u32>(last)?, "its checksum is wrong");
        Ok(())
    }

    /// Returns a CRC-32 over the values of a row, each with its length. It detects every single-bit
    /// flip.
    fn sum<'a>(&self, values: impl Iterator<Item = ValueRef<'a>>) -> u32 {
        let mut sum = crc32fast::Hasher::new();
        add(&mut sum, ValueRef::Text(self.name.as_bytes()));
        for (column, value) in values.enumerate() {
            if self.nullable.contains(&column) {
                add(
                    &mut sum,
                    ValueRef::Integer((value != ValueRef::Null).into()),
                );
            }
            add(&mut sum, value);
        }
        sum.finalize()
    }
}

fn add(sum: &mut crc32fast::Hasher, value: ValueRef<'_>) {
    match value {
        ValueRef::Null => {}
        ValueRef::Integer(number) => sum.update(&number.to_le_bytes()),
        ValueRef::Real(number) => sum.update(&number.to_le_bytes()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            sum.update(&(bytes.len() as u64).to_le_bytes());
            sum.update(bytes);
        }
    }
}

pub struct Writer<'a> {
    pub(super) connection: &'a Connection,
    pub(super) ban_clock: &'a BanClock,
}

impl Writer<'_> {
    /// Writes a row, all values except `id`, replacing one with the same key.
    pub(super) fn put(&self, table: &Table, values: &[&dyn ToSql]) -> anyhow::Result<()> {
        let values: Result<Vec<_>, _> = values.iter().map(ToSql::to_sql).collect();
        let mut values = values?;
        let sum = table.sum(values.iter().map(|value| match value {
            ToSqlOutput::Borrowed(value) => *value,
            ToSqlOutput::Owned(value) => value.into(),
            _ => unreachable!("only features that are off have others"),
        }));
        values.push(sum.into());
        self.run(table.put, params_from_iter(values))
    }

    /// Removes the row of a prefix.
    pub(super) fn remove(&self, table: &Table, prefix: Prefix) -> anyhow::Result<()> {
        let remove = format!("DELETE FROM {} WHERE prefix = ?1", table.name);
        self.run(&remove, params![prefix.to_bytes()])
    }

    pub(super) fn run(&self, statement: &str, values: impl rusqlite::Params) -> anyhow::Result<()> {
        self.connection.prepare_cached(statement)?.execute(values)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_do_not_run_into_each_other() {
        let sum = |name, values: &[ValueRef<'static>]| {
            let table = Table {
                name,
                rows: "",
                put: "",
                nullable: &[0],
            };
            table.sum(values.iter().copied())
        };
        let text = |text: &'static str| ValueRef::from(text);
        let sums = [
            sum("t", &[text("ab"), text("c")]),
            sum("t", &[text("a"), text("bc")]),
            sum("t", &[text(""), text("abc")]),
            sum("t", &[ValueRef::Null, text("abc")]),
            sum("u", &[text("ab"), text("c")]),
            sum("t", &[ValueRef::Integer(0)]),
            sum("t", &[ValueRef::Null]),
        ];
        for (index, sum) in sums.iter().enumerate() {
            assert!(!sums[..index].contains(sum), "{index}");
        }
    }
}
