//! A small part of what `cargo xtask exactness` measures: every algorithm keeps its promises in
//! each cell.

use std::time::Duration;

use ratelimit_tests::{
    exactness::{
        Cell, Clock, Row, increments,
        matrix::{Effort, Programs},
        page,
        virtual_time::Length,
    },
    require_cpus, require_root,
};

const SMALL: Effort = Effort {
    length: Length {
        packets_min: 4_000,
        windows_min: 3,
    },
    duration: Duration::from_millis(100),
};

#[test]
fn the_host_answers_every_packet_as_promised() {
    let cells = Cell::all(Clock::Virtual).filter(|cell| cell.cpus == 1);
    check(cells, |cell| cell.on_host(SMALL));
}

#[test]
fn the_kernel_on_two_cpus_admits_as_promised_while_the_clock_is_held() {
    require_root!();
    require_cpus!(2);
    let mut programs = Programs::load().unwrap();
    let cells = Cell::all(Clock::Virtual).filter(|cell| cell.cpus == 2 && is_telling(cell));
    check(cells, |cell| cell.measure(&mut programs, SMALL).unwrap());
}

#[test]
fn the_kernel_answers_as_promised_at_its_own_time() {
    require_root!();
    require_cpus!(2);
    let mut programs = Programs::load().unwrap();
    let cells =
        Cell::all(Clock::Real).filter(|cell| ["0.9", "2"].contains(&&*cell.load.to_string()));
    check(cells, |cell| cell.measure(&mut programs, SMALL).unwrap());
}

#[test]
fn two_cpus_lose_no_increment() {
    require_root!();
    require_cpus!(2);
    let counted = increments::count(1_000_000).unwrap();
    assert!(counted.is_exact(), "{counted:?}");
}

/// A little below the limit, and well above it.
fn is_telling(cell: &Cell) -> bool {
    ["0.9", "2"].contains(&&*cell.load.to_string())
}

fn check(cells: impl Iterator<Item = Cell>, mut measure: impl FnMut(&Cell) -> Row) {
    for cell in cells {
        let row = measure(&cell);
        let names = page::cell_names(&cell).join(" ");
        if let Some(broken) = cell.broken(&row) {
            panic!("{broken} by {names}: {row:?}");
        }
    }
}
