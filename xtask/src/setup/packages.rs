//! Programs from the distribution.

use std::path::Path;

use anyhow::{Context, Result, bail};

use super::say;
use crate::process;

/// A program, and the Debian package that has it.
pub struct Program {
    name: &'static str,
    package: &'static str,
}

/// Programs for the demo and the tests.
pub const FOR_DEMO: &[Program] = &[
    Program::new("curl", "curl"),
    Program::new("ip", "iproute2"),
    Program::new("nsenter", "util-linux"),
];

/// Programs that the benchmark compares with.
pub const FOR_BENCH: &[Program] = &[
    Program::new("ethtool", "ethtool"),
    Program::new("iptables", "iptables"),
    Program::new("nft", "nftables"),
];

/// The compiler and headers for XDP-Firewall in the benchmark.
pub const FOR_XDP_FIREWALL: &[Program] = &[
    Program::new("clang", "clang"),
    Program::new("/usr/include/bpf/bpf_helpers.h", "libbpf-dev"),
    Program::new("/usr/include/xdp/prog_dispatcher.h", "libxdp-dev"),
];

/// The users of a server.
pub const FOR_GOODPUT: &[Program] = &[Program::new("wrk", "wrk")];

/// The compiler for libFuzzer, which is C++.
pub const FOR_FUZZ: &[Program] = &[Program::new("c++", "g++")];

/// Programs for tests on other kernels.
pub const FOR_KERNELS: &[Program] = &[
    Program::new("busybox", "busybox-static"),
    Program::new("cpio", "cpio"),
    Program::new("dpkg-deb", "dpkg"),
    Program::new("ethtool", "ethtool"),
    Program::new("ip", "iproute2"),
    Program::new("ldd", "libc-bin"),
    Program::new("qemu-system-x86_64", "qemu-system-x86"),
    Program::new("strip", "binutils"),
    Program::new("xz", "xz-utils"),
];

/// The tools for Debian packages, and for linking for any Linux.
pub const FOR_PACKAGE: &[Program] = &[
    Program::new("dh", "debhelper"),
    Program::new("lintian", "lintian"),
    Program::new("musl-gcc", "musl-tools"),
    Program::new("readelf", "binutils"),
];

/// Programs for the tests only.
pub const FOR_TESTS: &[Program] = &[
    Program::new("bpftool", "bpftool"),
    Program::new("chromedriver", "chromium-driver"),
    Program::new("chromium", "chromium"),
    Program::new("dh", "debhelper"),
    Program::new("ethtool", "ethtool"),
    Program::new(EXABGP, EXABGP),
    Program::new("fish", "fish"),
    Program::new(GOBGPD, GOBGPD),
    Program::new("hping3", "hping3"),
    Program::new("lintian", "lintian"),
    Program::new("mandoc", "mandoc"),
    Program::new("openssl", "openssl"),
    Program::new("ping", "iputils-ping"),
    Program::new("prometheus", PROMETHEUS),
    Program::new("promtool", PROMETHEUS),
    // fail2ban is written in it, and it brings the library of SQLite that CrowdSec takes.
    Program::new("python3", "python3"),
    Program::new("script", "bsdutils"),
    Program::new("setpriv", "util-linux"),
    Program::new("systemd-analyze", "systemd"),
    Program::new("tcpdump", "tcpdump"),
    Program::new("tmux", "tmux"),
    Program::new("tshark", "tshark"),
    Program::new("unshare", "util-linux"),
    Program::new("vtysh", FRR),
    Program::new("xdp-loader", "xdp-tools"),
    Program::new("zsh", "zsh"),
];

const PROMETHEUS: &str = "prometheus";

/// Packages that start a service of the same name.
const SERVICES: [&str; 4] = [EXABGP, FRR, GOBGPD, PROMETHEUS];
const EXABGP: &str = "exabgp";
const FRR: &str = "frr";
const GOBGPD: &str = "gobgpd";

impl Program {
    const fn new(name: &'static str, package: &'static str) -> Self {
        Self { name, package }
    }
}

/// Installs the packages of those `programs` that are missing.
pub fn install(programs: &[Program]) -> Result<()> {
    let mut missing: Vec<_> = programs
        .iter()
        .filter(|program| process::find(program.name).is_none())
        .map(|program| program.package)
        .collect();
    missing.dedup();
    if missing.is_empty() {
        return Ok(());
    }
    apt_install(&missing)?;
    for service in SERVICES.iter().filter(|it| missing.contains(it)) {
        stop_service(service)?;
    }
    Ok(())
}

/// Installs `packages` with apt.
pub fn apt_install(packages: &[&str]) -> Result<()> {
    let list = packages.join(" ");
    if process::find("apt-get").is_none() {
        bail!("there is no apt-get here: install what Debian calls {list} by hand");
    }
    say(&format!("apt-get install {list}"));
    apt(&["update"])
        .and_then(|()| apt(&[&["install", "--no-install-recommends"], packages].concat()))
        .with_context(|| format!("installing {list}"))
}

fn apt(arguments: &[&str]) -> Result<()> {
    // `env`, because sudo passes no environment on.
    let mut apt = process::as_root("env")?;
    apt.args([
        "DEBIAN_FRONTEND=noninteractive",
        "apt-get",
        "--quiet",
        "--yes",
    ])
    // Another apt may be running, of a new machine's own updates for example.
    .args(["--option", "DPkg::Lock::Timeout=300"])
    .args(arguments);
    process::output(&mut apt).map(drop)
}

/// Stops the servers that Debian starts on installation: the tests start their own.
fn stop_service(service: &str) -> Result<()> {
    if !Path::new("/run/systemd/system").is_dir() {
        return Ok(());
    }
    say(&format!("systemctl disable --now {service}"));
    process::output(process::as_root("systemctl")?.args(["disable", "--now", service])).map(drop)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::workspace;

    #[test]
    fn every_program_that_a_test_requires_is_installed_for_it() {
        let mut required = vec![];
        required_in(&workspace::root().join("tests"), &mut required);
        assert!(!required.is_empty());
        for name in required {
            let mut installed = FOR_TESTS.iter().chain(FOR_DEMO);
            let is_installed = installed.any(|program| program.name == name);
            assert!(is_installed, "no package brings {name}");
        }
    }

    /// Adds the programs without which tests in `directory` leave, as they name them.
    fn required_in(directory: &Path, required: &mut Vec<String>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                required_in(&path, required);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let named = text.split("require_command!(\"").skip(1);
                required.extend(named.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
            }
        }
    }
}
