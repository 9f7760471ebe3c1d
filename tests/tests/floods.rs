//! A part of what `cargo xtask floods` measures: under a flood of forged sources each store keeps
//! its promises.

use ratelimit_tests::{
    flood::{Cell, Rig, Store},
    require_root,
};

const CAPACITY: u32 = 512;
const WINDOWS: u32 = 2;

#[test]
fn lru_keeps_its_promises() {
    require_root!();
    keeps_its_promises(Store::Lru);
}

#[test]
fn compact_keeps_its_promises() {
    require_root!();
    keeps_its_promises(Store::Compact);
}

fn keeps_its_promises(store: Store) {
    let mut rig = Rig::new(store, CAPACITY);
    for (seed, cell) in (0..).zip(Cell::all().filter(is_telling)) {
        let outcome = rig.send(&cell, WINDOWS, seed).unwrap();
        let broken = outcome.broken(store, &cell, CAPACITY);
        assert_eq!(broken, None, "{cell:?}: {outcome:?}");
    }
}

fn is_telling(cell: &Cell) -> bool {
    [1, 16].contains(&cell.ratio) && cell.packets_each < 8
}
