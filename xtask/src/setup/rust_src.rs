//! The sources of Rust's core library: the BPF target comes without a built one.
//!
//! The component `rust-src` of rustup has them. Where rustup cannot fetch it, Debian's `rustc-web`
//! comes with a compiler and the sources that fit it. The build script of the daemon looks in both
//! places, in this order.

use std::{env, ffi::OsString, path::Path, process::Command};

use anyhow::{Context, Result, bail};

use super::{packages, say};
use crate::process;

/// The compiler of the distribution.
const SYSTEM_RUSTC: &str = "/usr/bin/rustc";

/// Installs the sources where no compiler has them.
pub fn install() -> Result<()> {
    if has_sources(usual_rustc()) || has_sources(SYSTEM_RUSTC) {
        return Ok(());
    }
    let Err(error) = from_rustup() else {
        return Ok(());
    };
    say(&format!("{error:#}"));
    from_debian().context("installing the sources of Rust's core library")
}

/// Whether the compiler that cargo runs has the sources itself.
pub fn usual_compiler_has_sources() -> bool {
    has_sources(usual_rustc())
}

/// The compiler that builds BPF objects: the one that cargo runs where it has the sources, else
/// that of the distribution.
pub fn compiler_with_sources() -> OsString {
    let usual = usual_rustc();
    if has_sources(&usual) {
        usual
    } else {
        SYSTEM_RUSTC.into()
    }
}

fn from_rustup() -> Result<()> {
    say("rustup component add rust-src");
    process::output(
        Command::new("rustup")
            .args(["component", "add", "rust-src"])
            .env("RUST_BACKTRACE", "0"),
    )?;
    if !has_sources(usual_rustc()) {
        bail!("rustup has rust-src installed, but not for the compiler in use");
    }
    Ok(())
}

fn from_debian() -> Result<()> {
    packages::apt_install(&["rustc-web", "rust-web-src"])?;
    if !has_sources(SYSTEM_RUSTC) {
        bail!(
            "rustc-web and rust-web-src are installed, but {SYSTEM_RUSTC} does not find its sources"
        );
    }
    Ok(())
}

fn usual_rustc() -> OsString {
    env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())
}

fn has_sources(rustc: impl Into<OsString>) -> bool {
    process::output(Command::new(rustc.into()).args(["--print", "sysroot"])).is_ok_and(|sysroot| {
        Path::new(&sysroot)
            .join("lib/rustlib/src/rust/library/core/src/lib.rs")
            .is_file()
    })
}
