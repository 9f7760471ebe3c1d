//! The pages, read by `mandoc`.

use std::{fs, path::Path, process::Command};

#[test]
fn mandoc_warns_of_nothing() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../contrib/man");
    let pages: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(pages.len() > 30, "{pages:?}");
    let mut mandoc = Command::new("mandoc");
    mandoc.args(["-T", "lint", "-W", "warning"]).args(pages);
    let Ok(said) = mandoc.output() else {
        eprintln!("SKIPPED: no mandoc here");
        return;
    };
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert_eq!(said, "");
}
