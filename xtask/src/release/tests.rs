use std::{fs, path::Path, process::Command};

use tempfile::TempDir;

use super::{Release, changelog};

const CHANGELOG: &str =
    "# Changelog\n\n## [1.2.3] - 2027-01-02\n\n- It limits.\n\n## [1.2.2] - 2026-12-01\n\n- Old.\n";
const PAGE: &str = ".TH RLCTL 1 2027-01-02 \"ratelimit 1.2.3\" ratelimit\n";

#[test]
fn a_complete_tree_is_released() {
    let tree = tree();
    let release = release(&tree);
    assert_eq!(problems(&release), Vec::<String>::new());
    assert_eq!(release.tag(), "v1.2.3");
    assert_eq!(release.entry().unwrap().text, "- It limits.");
}

#[test]
fn each_thing_that_is_not_of_the_version_is_named() {
    for (file, text, expected) in [
        (
            "CHANGELOG.md",
            CHANGELOG.replace("## [1.2.3] - 2027-01-02", "## [Unreleased]"),
            "the newest entry of CHANGELOG.md is `[Unreleased]`",
        ),
        (
            "fuzz/Cargo.toml",
            "[package]\nversion = \"1.2.2\"\n".to_owned(),
            "fuzz/Cargo.toml does not say",
        ),
        (
            "contrib/openapi.json",
            r#"{"info": {"version": "1.2.2"}}"#.to_owned(),
            "contrib/openapi.json is of version \"1.2.2\"",
        ),
        (
            "contrib/ansible/roles/ratelimit/defaults/main.yml",
            "ratelimit_1.2.2_amd64.deb".to_owned(),
            "defaults/main.yml does not say",
        ),
        (
            "contrib/kubernetes/daemonset.yaml",
            "registry.example/ratelimit:1.2.30\n".to_owned(),
            "daemonset.yaml does not say",
        ),
        (
            "contrib/man/rlctl.1",
            PAGE.replace("2027-01-02", "2027-01-01"),
            "contrib/man/rlctl.1 is not of version 1.2.3 and 2027-01-02",
        ),
        (
            "contrib/man/rlctl-new.1",
            PAGE.to_owned(),
            "has no rlctl-new.1.gz",
        ),
    ] {
        let tree = tree();
        fs::write(tree.path().join(file), text).unwrap();
        commit(tree.path());
        package(tree.path(), "1.2.3");
        let problems = problems(&release(&tree));
        assert!(
            problems.iter().any(|problem| problem.contains(expected)),
            "{file}: {problems:?}"
        );
    }
}

#[test]
fn a_package_of_another_version_or_of_before_the_commit_is_refused() {
    let tree = tree();
    package(tree.path(), "1.2.2");
    assert!(problems(&release(&tree))[0].contains("is of version 1.2.2"));
    package(tree.path(), "1.2.3");
    let file = tree.path().join("target/package/ratelimit_1.2.3_all.deb");
    let file = fs::File::options().write(true).open(file).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    assert!(problems(&release(&tree))[0].contains("is older than the last commit"));
    fs::remove_dir_all(tree.path().join("target/package")).unwrap();
    assert!(problems(&release(&tree))[0].contains("run cargo xtask package"));
}

#[test]
fn what_is_not_committed_or_tagged_before_is_refused() {
    let tree = tree();
    git(tree.path(), &["tag", "v1.2.3"]);
    assert!(problems(&release(&tree))[0].contains("the tag v1.2.3 exists"));
    fs::write(tree.path().join("new"), "").unwrap();
    assert!(problems(&release(&tree))[0].contains("?? new"));
}

#[test]
fn the_entry_of_the_changelog_has_a_date_and_a_text() {
    let error = |text: &str| changelog::entry(text, "1.2.3").unwrap_err().to_string();
    assert!(error("\n## [1.2.3] - soon\n\n- It limits.").contains("`soon` is no date"));
    assert!(
        error("\n## [1.2.3] - 2027-01-02\n\n## [1.2.2] - 2026-12-01\n").contains("says nothing")
    );
}

/// A repository that has what a release of 1.2.3 needs.
fn tree() -> TempDir {
    let tree = tempfile::tempdir().unwrap();
    for (file, text) in [
        ("CHANGELOG.md", CHANGELOG),
        (".gitignore", "target\n"),
        ("fuzz/Cargo.toml", "[package]\nversion = \"1.2.3\"\n"),
        ("contrib/openapi.json", r#"{"info": {"version": "1.2.3"}}"#),
        (
            "contrib/ansible/roles/ratelimit/defaults/main.yml",
            "ratelimit_1.2.3_amd64.deb",
        ),
        (
            "contrib/kubernetes/daemonset.yaml",
            "registry.example/ratelimit:1.2.3\n",
        ),
        ("contrib/man/rlctl.1", PAGE),
    ] {
        let file = tree.path().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    git(tree.path(), &["init", "--quiet"]);
    commit(tree.path());
    package(tree.path(), "1.2.3");
    tree
}

fn release(tree: &TempDir) -> Release {
    Release {
        root: tree.path().to_owned(),
        packages: tree.path().join("target/package"),
        version: "1.2.3".to_owned(),
    }
}

fn problems(release: &Release) -> Vec<String> {
    let problems = release.problems();
    problems
        .iter()
        .map(|problem| format!("{problem:#}"))
        .collect()
}

/// A package whose file is named as that of 1.2.3.
fn package(root: &Path, version: &str) {
    let files = root.join("target/files");
    for file in [
        "usr/sbin/ratelimitd",
        "usr/bin/rlctl",
        "usr/share/man/man1/rlctl.1.gz",
    ] {
        let file = files.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "").unwrap();
    }
    fs::create_dir_all(files.join("DEBIAN")).unwrap();
    fs::create_dir_all(root.join("target/package")).unwrap();
    let control = format!(
        "Package: ratelimit\n\
         Version: {version}\n\
         Architecture: all\n\
         Maintainer: Jane <jane@example.org>\n\
         Description: limits\n"
    );
    fs::write(files.join("DEBIAN/control"), control).unwrap();
    let mut build = Command::new("dpkg-deb");
    build
        .arg("--build")
        .arg(files)
        .arg(root.join("target/package/ratelimit_1.2.3_all.deb"));
    assert!(build.output().unwrap().status.success());
}

fn commit(root: &Path) {
    git(root, &["add", "--all"]);
    git(
        root,
        &[
            "-c",
            "user.name=Jane",
            "-c",
            "user.email=jane@example.org",
            "commit",
            "--quiet",
            "--message",
            "all",
        ],
    );
}

fn git(root: &Path, arguments: &[&str]) {
    let status = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(arguments)
        .status()
        .unwrap();
    assert!(status.success(), "git {arguments:?}");
}
