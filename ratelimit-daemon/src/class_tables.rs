//! The three arrays by which the classes of a packet are looked up.

use ratelimit_common::{
    ClassSet,
    class::{KINDS, PORTS},
    parse::transport::Kind,
};

/// For each kind, source port and destination port the classes that a packet may belong to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClassTables {
    by_kind: Vec<ClassSet>,
    from_port: Vec<ClassSet>,
    to_port: Vec<ClassSet>,
}

impl Default for ClassTables {
    /// Arrays that name no class.
    fn default() -> Self {
        Self {
            by_kind: vec![ClassSet::NONE; KINDS as usize],
            from_port: vec![ClassSet::NONE; PORTS as usize],
            to_port: vec![ClassSet::NONE; PORTS as usize],
        }
    }
}

impl ClassTables {
    /// The arrays as they stand in the datapath.
    #[must_use]
    pub fn from_arrays(
        by_kind: Vec<ClassSet>,
        from_port: Vec<ClassSet>,
        to_port: Vec<ClassSet>,
    ) -> Self {
        Self {
            by_kind,
            from_port,
            to_port,
        }
    }

    /// The classes by [kind](Kind::index).
    #[must_use]
    pub fn by_kind(&self) -> &[ClassSet] {
        &self.by_kind
    }

    /// The classes by source port, and by [none](ratelimit_common::class::NO_PORT).
    #[must_use]
    pub fn from_port(&self) -> &[ClassSet] {
        &self.from_port
    }

    /// The classes by destination port, and by [none](ratelimit_common::class::NO_PORT).
    #[must_use]
    pub fn to_port(&self) -> &[ClassSet] {
        &self.to_port
    }

    /// Adds `class` to every kind, source port and destination port for which the functions hold. A packet without ports
    /// has the port [`NO_PORT`](ratelimit_common::class::NO_PORT).
    pub fn add(
        &mut self,
        class: ClassSet,
        is_kind: impl Fn(Kind) -> bool,
        is_from: impl Fn(u32) -> bool,
        is_to: impl Fn(u32) -> bool,
    ) {
        let kinds = (0..KINDS).map(|index| Kind::from_index(index).is_some_and(&is_kind));
        set(&mut self.by_kind, class, kinds);
        set(&mut self.from_port, class, (0..PORTS).map(is_from));
        set(&mut self.to_port, class, (0..PORTS).map(is_to));
    }
}

fn set(array: &mut [ClassSet], class: ClassSet, holds: impl Iterator<Item = bool>) {
    for (classes, holds) in array.iter_mut().zip(holds) {
        if holds {
            *classes = classes.union(class);
        }
    }
}
