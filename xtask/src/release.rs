//! `cargo xtask release`: checks that everything names the same version, and tags it.

mod changelog;
#[cfg(test)]
mod tests;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;

use self::changelog::ReleaseNotes;
use crate::{process, workspace};

/// Checks version, changelog, manual pages and package, and tags the commit
///
/// The version is the one in Cargo.toml. Run `cargo xtask package` first: the package is checked,
/// too.
#[derive(Args)]
pub struct Arguments {
    /// Check and print the tag, without making it
    #[arg(long)]
    dry_run: bool,
}

/// Reports everything that prevents the release. Without a problem, makes the tag unless this is a
/// dry run.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let release = Release {
        root: workspace::root().to_owned(),
        packages: workspace::target_dir().join("package"),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let problems = release.problems();
    for problem in &problems {
        eprintln!("release: {problem:#}");
    }
    if !problems.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    let (tag, commit) = (
        release.tag(),
        release.git(&["rev-parse", "--short", "HEAD"])?,
    );
    if arguments.dry_run {
        println!("would tag {commit} as {tag}");
    } else {
        let message = format!("ratelimit {}\n\n{}", release.version, release.entry()?.text);
        // Headings of the changelog are no comments.
        release.git(&[
            "tag",
            "--annotate",
            "--cleanup=verbatim",
            "--message",
            &message,
            &tag,
        ])?;
        println!("tagged {commit} as {tag}");
    }
    Ok(ExitCode::SUCCESS)
}

struct Release {
    root: PathBuf,
    /// The directory in which `cargo xtask package` puts packages.
    packages: PathBuf,
    version: String,
}

impl Release {
    fn tag(&self) -> String {
        format!("v{}", self.version)
    }

    /// Everything that prevents the release.
    fn problems(&self) -> Vec<anyhow::Error> {
        [
            self.check_commit(),
            self.check_tag(),
            self.check_changelog(),
            self.check_fuzz(),
            self.check_openapi(),
            self.check_contrib(),
            self.check_manual(),
            self.check_package(),
        ]
        .into_iter()
        .filter_map(Result::err)
        .collect()
    }

    fn check_commit(&self) -> Result<()> {
        let changed = self.git(&["status", "--porcelain"])?;
        if !changed.is_empty() {
            bail!("files are not committed:\n{changed}");
        }
        Ok(())
    }

    fn check_tag(&self) -> Result<()> {
        let tag = self.tag();
        if !self.git(&["tag", "--list", &tag])?.is_empty() {
            bail!("the tag {tag} exists: raise the version in Cargo.toml");
        }
        Ok(())
    }

    fn check_changelog(&self) -> Result<()> {
        self.entry().map(drop)
    }

    fn check_fuzz(&self) -> Result<()> {
        self.expect_in(
            "fuzz/Cargo.toml",
            &format!("\nversion = \"{}\"\n", self.version),
        )
    }

    fn check_openapi(&self) -> Result<()> {
        let api: Value = serde_json::from_str(&self.read("contrib/openapi.json")?)
            .context("contrib/openapi.json")?;
        let version = &api["info"]["version"];
        if version != &self.version {
            bail!(
                "contrib/openapi.json is of version {version}: RATELIMIT_WRITE=1 cargo test \
                 openapi writes it"
            );
        }
        Ok(())
    }

    fn check_contrib(&self) -> Result<()> {
        let Self { version, .. } = self;
        self.expect_in(
            "contrib/ansible/roles/ratelimit/defaults/main.yml",
            &format!("ratelimit_{version}_amd64.deb"),
        )?;
        self.expect_in(
            "contrib/kubernetes/daemonset.yaml",
            &format!("/ratelimit:{version}\n"),
        )
    }

    /// Each page names the version and the date of the changelog in its title.
    fn check_manual(&self) -> Result<()> {
        let date = self.entry()?.date;
        let title = format!(" {date} \"ratelimit {}\" ratelimit\n", self.version);
        for page in self.manual_pages()? {
            let file = format!("contrib/man/{page}");
            if !self.read(&file)?.contains(&title) {
                bail!(
                    "{file} is not of version {} and {date}: set the date in manual/src/lib.rs, \
                     then RATELIMIT_WRITE=1 cargo test manual",
                    self.version
                );
            }
        }
        Ok(())
    }

    /// The package is of this version, was made after the last commit, and has the programs and
    /// every manual page.
    fn check_package(&self) -> Result<()> {
        let package = self.package()?;
        let name = package.display();
        let committed: u64 = self.git(&["log", "-1", "--format=%ct"])?.parse()?;
        let committed = SystemTime::UNIX_EPOCH + Duration::from_secs(committed);
        if fs::metadata(&package)?.modified()? < committed {
            bail!("{name} is older than the last commit: run cargo xtask package");
        }
        let mut field = Command::new("dpkg-deb");
        let version = process::output(field.arg("--field").arg(&package).arg("Version"))?;
        if version != self.version {
            bail!("{name} is of version {version}");
        }
        let contents = process::output(Command::new("dpkg-deb").arg("--contents").arg(&package))?;
        let pages = self.manual_pages()?.into_iter();
        let pages = pages.map(|page| format!("/{page}.gz"));
        for file in pages.chain(["/ratelimitd", "/rlctl"].map(str::to_owned)) {
            if !contents.lines().any(|line| line.ends_with(&file)) {
                bail!("{name} has no {}", &file[1..]);
            }
        }
        Ok(())
    }

    /// The package of this version.
    fn package(&self) -> Result<PathBuf> {
        let start = format!("ratelimit_{}_", self.version);
        let files = fs::read_dir(&self.packages).into_iter().flatten();
        files
            .filter_map(|file| Some(file.ok()?.path()))
            .find(|file| {
                let name = file.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with(&start) && name.ends_with(".deb")
            })
            .with_context(|| {
                let packages = self.packages.display();
                format!("no {start}*.deb in {packages}: run cargo xtask package")
            })
    }

    /// The names of the pages in `contrib/man`.
    fn manual_pages(&self) -> Result<Vec<String>> {
        let directory = self.root.join("contrib/man");
        let files =
            fs::read_dir(&directory).with_context(|| format!("reading {}", directory.display()))?;
        let names = files.map(|file| Ok(file?.file_name().to_string_lossy().into_owned()));
        names.collect()
    }

    fn entry(&self) -> Result<ReleaseNotes> {
        changelog::entry(&self.read("CHANGELOG.md")?, &self.version)
    }

    fn expect_in(&self, file: &str, text: &str) -> Result<()> {
        if !self.read(file)?.contains(text) {
            bail!("{file} does not say {:?}", text.trim());
        }
        Ok(())
    }

    fn read(&self, file: impl AsRef<Path>) -> Result<String> {
        let file = file.as_ref();
        fs::read_to_string(self.root.join(file))
            .with_context(|| format!("reading {}", file.display()))
    }

    fn git(&self, arguments: &[&str]) -> Result<String> {
        process::output(
            Command::new("git")
                .arg("-C")
                .arg(&self.root)
                .args(arguments),
        )
    }
}
