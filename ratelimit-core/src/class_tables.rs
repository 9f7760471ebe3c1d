//! The three arrays by which the classes of a packet are looked up.

use ratelimit_common::{
    ClassSet,
    class::{CLASSES_MAX, PORTS},
    parse::transport::Kind,
};

use crate::class::Class;

/// For each kind, source port and destination port the classes that a packet may belong to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClassTables {
    by_kind: Vec<ClassSet>,
    from_port: Vec<ClassSet>,
    to_port: Vec<ClassSet>,
}

/// One of the arrays.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ClassArray {
    /// By kind.
    #[default]
    ByKind,
    /// By source port.
    FromPort,
    /// By destination port.
    ToPort,
}

impl ClassArray {
    /// The array that is compared after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            Self::ByKind => Self::FromPort,
            Self::FromPort => Self::ToPort,
            Self::ToPort => Self::ByKind,
        }
    }
}

impl Default for ClassTables {
    /// Arrays that name no class.
    fn default() -> Self {
        Self {
            by_kind: vec![ClassSet::NONE; Kind::COUNT as usize],
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

    /// The classes of one array.
    #[must_use]
    pub fn array(&self, array: ClassArray) -> &[ClassSet] {
        match array {
            ClassArray::ByKind => &self.by_kind,
            ClassArray::FromPort => &self.from_port,
            ClassArray::ToPort => &self.to_port,
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

    /// Adds the packets of a class under its number.
    pub fn add_class(&mut self, number: ClassSet, class: &Class) {
        self.add(
            number,
            |kind| class.has_kind(kind),
            |port| class.has_source_port(port),
            |port| class.has_destination_port(port),
        );
    }

    /// Every class that some packet may belong to.
    #[must_use]
    pub fn classes(&self) -> ClassSet {
        let all = self
            .by_kind
            .iter()
            .chain(&self.from_port)
            .chain(&self.to_port);
        all.fold(ClassSet::NONE, |sum, classes| sum.union(*classes))
    }

    /// The number under which exactly the packets of `class` are found.
    #[must_use]
    pub fn number_of(&self, class: &Class) -> Option<ClassSet> {
        let classes = self.classes();
        let numbers = (0..CLASSES_MAX).filter_map(ClassSet::one);
        let mut numbers = numbers.filter(|number| number.intersects(classes));
        numbers.find(|number| {
            let is_kind = |index| Kind::from_index(index).is_some_and(|kind| class.has_kind(kind));
            holds_exactly(&self.by_kind, *number, is_kind)
                && holds_exactly(&self.from_port, *number, |port| class.has_source_port(port))
                && holds_exactly(&self.to_port, *number, |port| {
                    class.has_destination_port(port)
                })
        })
    }

    /// The classes of both arrays, entry for entry.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let union = |own: &[ClassSet], others: &[ClassSet]| {
            let pairs = own.iter().zip(others);
            pairs.map(|(own, others)| own.union(*others)).collect()
        };
        Self {
            by_kind: union(&self.by_kind, &other.by_kind),
            from_port: union(&self.from_port, &other.from_port),
            to_port: union(&self.to_port, &other.to_port),
        }
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
        let kinds = (0..Kind::COUNT).map(|index| Kind::from_index(index).is_some_and(&is_kind));
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

/// Whether the entries of `array` that have the class are those for which `holds` does.
fn holds_exactly(array: &[ClassSet], class: ClassSet, holds: impl Fn(u32) -> bool) -> bool {
    let mut entries = array.iter().zip(0..);
    entries.all(|(classes, index)| classes.intersects(class) == holds(index))
}
