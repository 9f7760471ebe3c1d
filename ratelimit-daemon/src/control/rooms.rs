//! Tests the layers of the control plane (rooms): none imports from one above it.

use std::{fs, path::Path};

/// Lowest first.
const ROOMS: [&str; 13] = [
    "time",
    "reports",
    "persistence",
    "lists",
    "configuration",
    "enforcement",
    "sources",
    "state",
    "interfaces",
    "feeds",
    "controller",
    "queries",
    "commands",
];

#[test]
fn no_room_imports_from_one_above_it() {
    let control = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/control");
    let face = fs::read_to_string(control.with_extension("rs")).unwrap();
    let modules = face
        .lines()
        .filter_map(|line| line.split_once("mod ")?.1.strip_suffix(';'));
    let mut upwards: Vec<String> = modules
        .filter(|it| *it != "rooms" && !ROOMS.contains(it))
        .map(|it| format!("{it} has no place among the rooms"))
        .collect();
    for (floor, room) in ROOMS.iter().enumerate() {
        let mut sources = vec![control.join(format!("{room}.rs"))];
        add_sources(&control.join(room), &mut sources);
        for path in sources {
            let source = fs::read_to_string(&path).unwrap();
            let is_face = path.parent() == Some(&control);
            let imports = imports(&source, is_face);
            let is_below = |it: &String| ROOMS[..=floor].contains(&&**it);
            upwards.extend(
                imports
                    .into_iter()
                    .filter(|it| !is_below(it))
                    .map(|it| format!("{}: {it}", path.display())),
            );
        }
    }
    assert!(upwards.is_empty(), "{upwards:#?}");
}

#[test]
fn every_form_of_an_import_is_seen() {
    let source = "use crate::{clock, control::{feeds::{a, state::b}, sources}};
        // control::commented
        use super::queries::check; let it = crate::control::time::now();
        #[cfg(test)]\nmod tests { use crate::control::of_a_test; }";
    let seen = ["feeds", "sources", "time", "queries"];
    assert_eq!(imports(source, true), seen);
    assert_eq!(imports(source, false), seen[..3]);
}

/// Adds the source files below a directory, except tests.
fn add_sources(directory: &Path, sources: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        let is_test = path.file_stem().is_some_and(|name| name == "tests");
        if path.is_dir() && !is_test {
            add_sources(&path, sources);
        } else if !path.is_dir() && !is_test {
            sources.push(path);
        }
    }
}

/// Returns the rooms that a source imports. The file of a room itself refers to other rooms with
/// `super`.
fn imports(source: &str, is_face: bool) -> Vec<String> {
    let lines = source.lines().map(|line| line.split("//").next().unwrap());
    let code = lines.collect::<Vec<_>>().join("\n");
    let code = code.split("#[cfg(test)]\nmod").next().unwrap();
    let code: String = code.split_whitespace().collect();
    let mut paths = vec!["control::"];
    paths.extend(is_face.then_some("super::"));
    let after = paths.iter().flat_map(|it| code.split(it).skip(1));
    after.flat_map(first_names).collect()
}

/// Returns the first name of a path, or all of them if it begins with braces.
fn first_names(path: &str) -> Vec<String> {
    let name = |text: &str| {
        let end = text.find(|it: char| !it.is_alphanumeric() && it != '_');
        text[..end.unwrap_or(text.len())].to_owned()
    };
    let Some(group) = path.strip_prefix('{') else {
        return vec![name(path)];
    };
    let (mut depth, mut begins) = (0, true);
    let mut names = Vec::new();
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => begins = true,
            _ if begins => {
                names.push(name(&group[at..]));
                begins = false;
            }
            _ => {}
        }
    }
    names
}
