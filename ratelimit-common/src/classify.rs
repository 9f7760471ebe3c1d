//! Which classes a packet belongs to.

use crate::{ClassSet, Cursor, Tables, parse::transport::UpperLayer};

/// The classes of the packet in `frame`, a cursor at its front, whose upper layer is `upper`.
#[must_use]
#[inline(always)]
pub fn classify(frame: Cursor<'_>, upper: UpperLayer, tables: &impl Tables) -> ClassSet {
    let transport = upper.transport(frame);
    tables
        .classes_of(transport.kind)
        .intersection(tables.classes_from(transport.source_port))
        .intersection(tables.classes_to(transport.destination_port))
}
