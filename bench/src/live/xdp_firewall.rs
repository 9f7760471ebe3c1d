//! XDP-Firewall, of a checkout that the user names: its program, compiled as its own Makefile does,
//! with one rule.
//!
//! Its own loader would put the program behind the dispatcher of libxdp. Here it is attached
//! itself, which costs a packet less.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, anyhow, ensure};
use aya::{
    Ebpf, EbpfLoader,
    programs::{TestRun, TestRunOptions, Xdp},
    util::nr_cpus,
};

use crate::{arguments::XDP_FIREWALL_PROGRAM, harness};

/// Its default options, except for the number of sources. A second program fills in the rule on all
/// CPUs, because its tables are per CPU.
const BEFORE: &str = "#include <common/config.h>
#undef MAX_BLOCK
#define MAX_BLOCK SOURCES
#undef MAX_RL_FLOW
#define MAX_RL_FLOW SOURCES
";
const BEHIND: &str = r#"
SEC("xdp")
int fill(struct xdp_md *ctx)
{
    u32 first = 0;
    for (u32 cpu = 0; cpu < CPUS; cpu++)
    {
        filter_t *rule = bpf_map_lookup_percpu_elem(&map_filters, &first, cpu);
        if (!rule)
            return XDP_ABORTED;
        rule->set = 1;
        rule->enabled = 1;
        rule->action = 0;
        rule->block_time = BLOCK_SECONDS;
        rule->do_flow_pps = 1;
        rule->flow_pps = PACKETS;
    }
    return XDP_PASS;
}
"#;
/// Its program, the name of its section as aya knows it, and as it is written.
const PROGRAM: &str = "xdp_prog_main";
const SECTION: [&str; 2] = ["SEC(\"xdp\")", "SEC(\"xdp_prog\")"];
/// The action of a program that passes a packet.
const PASS: u32 = 2;

/// The one rule: `action = 0`, `flow_pps`, `block_time`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rule {
    /// The first packet in a second that it drops.
    pub packets: u32,
    /// The time for which it then blocks the source, in seconds.
    pub block_seconds: u16,
}

/// Compiles the program of `checkout`, loads it with room for this many sources, and fills in
/// `rule`.
pub fn load(checkout: &Path, rule: Rule, capacity: u32) -> Result<Ebpf> {
    let object = compile(checkout, rule, capacity)
        .with_context(|| format!("compiling XDP-Firewall in {}", checkout.display()))?;
    let mut ebpf = EbpfLoader::new()
        .load(&object)
        .context("reading XDP-Firewall")?;
    let fill = harness::xdp(&mut ebpf, "fill")?;
    fill.load().context("loading `fill`")?;
    let options = TestRunOptions {
        data_in: Some(&[0; 64]),
        ..TestRunOptions::default()
    };
    let answer = fill.test_run(options).context("filling in the rule")?;
    ensure!(answer.return_value == PASS, "the rule finds no place");
    program(&mut ebpf)?.load().context("loading XDP-Firewall")?;
    Ok(ebpf)
}

/// Its program.
pub fn program(ebpf: &mut Ebpf) -> Result<&mut Xdp> {
    harness::xdp(ebpf, PROGRAM)
}

/// Returns the name, with the commit if the checkout knows it.
pub fn version(checkout: &Path) -> String {
    let described = Command::new("git")
        .arg("-C")
        .arg(checkout)
        .args(["describe", "--always", "--tags", "--dirty"])
        .output();
    let described = described.ok().filter(|output| output.status.success());
    let version = described.and_then(|output| String::from_utf8(output.stdout).ok());
    format!(
        "XDP-Firewall {}",
        version.as_deref().unwrap_or("of no commit").trim()
    )
}

fn compile(checkout: &Path, rule: Rule, capacity: u32) -> Result<Vec<u8>> {
    let sources = checkout.join("src");
    let path = checkout.join(XDP_FIREWALL_PROGRAM);
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let [known, written] = SECTION;
    ensure!(text.contains(written), "its program is in another section");
    let text = [BEFORE, &text.replace(written, known), BEHIND].concat();

    let architecture = std::env::consts::ARCH;
    let cpus = nr_cpus().map_err(|(file, error)| anyhow!(error).context(file))?;
    let mut clang = Command::new("clang");
    clang
        .arg("-I")
        .arg(&sources)
        .args(["-I", "/usr/include", "-idirafter"])
        .arg(PathBuf::from(format!(
            "/usr/include/{architecture}-linux-gnu"
        )))
        // The headers of the C library ask which machine it is.
        .arg(format!("-D__{architecture}__"))
        .arg(format!("-DSOURCES={capacity}"))
        .arg(format!("-DCPUS={cpus}"))
        .arg(format!("-DPACKETS={}", rule.packets))
        .arg(format!("-DBLOCK_SECONDS={}", rule.block_seconds))
        .args([
            "-O2", "-g", "-target", "bpf", "-x", "c", "-c", "-", "-o", "-",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut running = clang.spawn().context("running clang")?;
    running
        .stdin
        .take()
        .context("clang reads nothing")?
        .write_all(text.as_bytes())?;
    let output = running.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}", said.trim_end());
    Ok(output.stdout)
}
