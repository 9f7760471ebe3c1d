//! Builds the BPF objects of `ratelimit-ebpf`, which `loader::object` embeds.
//!
//! `aya-build` would use a nightly compiler, its own flags and the `release` profile. The program
//! is built by stable, with the flags of `.cargo/config.toml` and the profile `bpf`, so that `cargo
//! build -p ratelimit-ebpf --features program` by hand gives the same object. It is built three
//! times: with the code of all features, lean, with the code of those that most configurations use,
//! and for TCX. They are embedded compressed, as is the description of the API.
//!
//! It installs nothing: if something is missing, the error names it, and `cargo xtask setup`
//! installs it.

use std::{
    env,
    error::Error,
    fs, io,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use miniz_oxide::deflate::compress_to_vec;
use object::{build::elf, elf::SHT_STRTAB};

const TARGET: &str = "bpfel-unknown-none";
const PROFILE: &str = "bpf";
const OBJECT: &str = "ratelimit";
/// The lean one: the feature that builds it, and the name under which it is embedded.
const LEAN: &str = "lean";
/// The one for TCX, the same.
const TCX: &str = "tcx";
/// The description of the API, which the daemon serves.
const OPENAPI: &str = "openapi.json";
/// The object of the program that others call.
const ENTRY: &str = "entry";

/// The prefixes of sections that are not embedded: debugging information, and relocations of BTF,
/// which bpf-linker has applied.
const OMITTED: [&[u8]; 3] = [b".debug_", b".rel.debug_", b".rel.BTF"];

/// The section with the function and the source line of each instruction (`struct btf_ext_header`
/// of libbpf).
const BTF_EXT: &[u8] = b".BTF.ext";

/// The prefix of labels that inline assembly jumps to.
const LABEL: &[u8] = b"LBB";

/// `RATELIMIT_BPF_LOG=off` builds the released object for a debug build; tests do.
const LOG_SWITCH: &str = "RATELIMIT_BPF_LOG";

/// Inputs of the object, relative to the root of the repository.
const INPUTS: [&str; 8] = [
    ".cargo/config.toml",
    "Cargo.lock",
    "Cargo.toml",
    "ratelimit-common/Cargo.toml",
    "ratelimit-common/src",
    "ratelimit-ebpf/Cargo.toml",
    "ratelimit-ebpf/aya-build",
    "ratelimit-ebpf/src",
];

/// Variables by which the outer cargo, or `cargo clippy`, would change the inner build.
const LEAKS: [&str; 5] = [
    "CARGO_ENCODED_RUSTFLAGS",
    // It splits the program into parts that the verifier does not take.
    "CARGO_INCREMENTAL",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_WRAPPER",
    "RUSTFLAGS",
];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("cargo::error={message}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let root = Path::new("..");
    println!("cargo::rustc-check-cfg=cfg(bpf_log)");
    for input in INPUTS {
        println!("cargo::rerun-if-changed={}", root.join(input).display());
    }
    let out_dir = PathBuf::from(variable("OUT_DIR")?);
    embed_openapi(root, &out_dir).map_err(|error| format!("cannot embed {OPENAPI}: {error}"))?;
    let rustc = rustc_with_sources()?;
    require_linker()?;
    let target_dir = target_dir(&out_dir);
    // All builds produce the same file name.
    for (features, objects) in [
        ("program", &[(OBJECT, OBJECT), (ENTRY, ENTRY)][..]),
        ("program,lean", &[(OBJECT, LEAN)]),
        ("program,tcx", &[(OBJECT, TCX)]),
    ] {
        let binaries: Vec<&str> = objects.iter().map(|(binary, _)| *binary).collect();
        let directory = build(root, &rustc, &target_dir, features, &binaries)?;
        for (binary, name) in objects {
            let built = directory.join(binary);
            embed(&built, &out_dir.join(name))
                .map_err(|error| format!("cannot embed {}: {error}", built.display()))?;
        }
    }
    Ok(())
}

fn embed_openapi(root: &Path, out_dir: &Path) -> io::Result<()> {
    let document = root.join("contrib").join(OPENAPI);
    println!("cargo::rerun-if-changed={}", document.display());
    fs::write(out_dir.join(OPENAPI), compressed(&fs::read(document)?))
}

/// Copies the object without its DWARF, which is nine tenths of it, because the kernel reads BTF.
/// Source lines, more than half of the rest, are kept for the verifier's log in builds that log:
/// aya copies them for each function, and the kernel moves them with each instruction that it
/// replaces.
///
/// One name is changed to one that the kernel's BTF check accepts: aya-log's level is a
/// `MaybeUninit<u8>`, a union, and bpf-linker renames structs only.
fn embed(object: &Path, embedded: &Path) -> Result<(), Box<dyn Error>> {
    const REFUSED: &[u8] = b"MaybeUninit<u8>";
    const TAKEN: &[u8] = b"MaybeUninit_u8_";
    let bytes = fs::read(object)?;
    let mut elf = elf::Builder::read(&*bytes)?;
    for section in &mut elf.sections {
        section.delete = OMITTED
            .iter()
            .any(|prefix| section.name.starts_with(prefix));
        if *section.name == *BTF_EXT
            && !logs()
            && let elf::SectionData::Data(bytes) = &section.data
        {
            let bytes = without_lines(bytes).ok_or(".BTF.ext is too short")?;
            section.data = elf::SectionData::Data(bytes.into());
        }
    }
    // Each branch of a feature leaves the name of its label.
    for symbol in &mut elf.symbols {
        symbol.delete |= symbol.name.starts_with(LABEL);
    }
    elf.delete_orphans();
    // LLVM writes the names of sections and symbols into one table; the builder needs two.
    let names = elf.sections.add();
    names.name = ".shstrtab".into();
    names.sh_type = SHT_STRTAB;
    names.sh_addralign = 1;
    names.data = elf::SectionData::SectionString;
    let mut stripped = Vec::new();
    elf.write(&mut stripped)?;
    while let Some(at) = stripped
        .windows(REFUSED.len())
        .position(|name| name == REFUSED)
    {
        stripped[at..at + TAKEN.len()].copy_from_slice(TAKEN);
    }
    Ok(fs::write(embedded, compressed(&stripped))?)
}

/// Compresses a file that is embedded: together they would be a tenth of the daemon.
fn compressed(bytes: &[u8]) -> Vec<u8> {
    const LEVEL: u8 = 9;
    compress_to_vec(bytes, LEVEL)
}

/// Returns `.BTF.ext` without its lines. `None` if it is shorter than its header says.
fn without_lines(btf_ext: &[u8]) -> Option<Vec<u8>> {
    const HEADER_BYTES: usize = 4;
    const LINES_AT: usize = 16;
    const LINES_BYTES: usize = 20;
    const RELOCATIONS_AT: usize = 24;
    let field = |at: usize| Some(u32::from_le_bytes(*btf_ext.get(at..)?.first_chunk()?));
    let lines_at = usize::try_from(field(HEADER_BYTES)? + field(LINES_AT)?).ok()?;
    let lines_end = lines_at + usize::try_from(field(LINES_BYTES)?).ok()?;
    let mut kept = [btf_ext.get(..lines_at)?, btf_ext.get(lines_end..)?].concat();
    let relocations_at = field(RELOCATIONS_AT)?.checked_sub(field(LINES_BYTES)?)?;
    let mut set = |at: usize, value: u32| {
        *kept.get_mut(at..)?.first_chunk_mut()? = value.to_le_bytes();
        Some(())
    };
    set(LINES_BYTES, 0)?;
    set(RELOCATIONS_AT, relocations_at)?;
    Some(kept)
}

/// Whether the program logs through aya-log: in debug builds, unless `RATELIMIT_BPF_LOG` is off.
fn logs() -> bool {
    println!("cargo::rerun-if-env-changed={LOG_SWITCH}");
    let is_off = env::var(LOG_SWITCH).is_ok_and(|value| value == "off");
    env::var("PROFILE").is_ok_and(|profile| profile == "debug") && !is_off
}

/// The compiler of the outer build where it has the sources of `core`, otherwise that of the
/// distribution where it has them.
fn rustc_with_sources() -> Result<PathBuf, String> {
    let outer = PathBuf::from(variable("RUSTC")?);
    [outer, PathBuf::from("/usr/bin/rustc")]
        .into_iter()
        .find(|rustc| has_sources(rustc))
        .ok_or_else(|| missing("the sources of Rust's core library (rust-src) are"))
}

fn has_sources(rustc: &Path) -> bool {
    let Ok(output) = Command::new(rustc).args(["--print", "sysroot"]).output() else {
        return false;
    };
    let sysroot = String::from_utf8_lossy(&output.stdout);
    Path::new(sysroot.trim_end())
        .join("lib/rustlib/src/rust/library/core/src/lib.rs")
        .is_file()
}

fn require_linker() -> Result<(), String> {
    env::split_paths(&variable("PATH")?)
        .any(|directory| directory.join("bpf-linker").is_file())
        .then_some(())
        .ok_or_else(|| missing("bpf-linker is"))
}

fn missing(what: &str) -> String {
    format!(
        "the BPF object cannot be built: {what} missing. `cargo xtask setup` installs what is \
         needed"
    )
}

/// A directory of its own, as the outer cargo holds the lock of the usual one until this script
/// ends. It is a neighbour of the directories of all build scripts: `cargo build`, `cargo clippy`
/// and `cargo test` have an `OUT_DIR` each, and `core` is built once for all.
fn target_dir(out_dir: &Path) -> PathBuf {
    let build_scripts = out_dir.ancestors().nth(2).unwrap_or(out_dir);
    build_scripts.join("bpf-object")
}

/// Builds these binaries with these features, and returns the directory that they are in.
fn build(
    root: &Path,
    rustc: &Path,
    target_dir: &Path,
    features: &str,
    binaries: &[&str],
) -> Result<PathBuf, String> {
    let mut cargo = Command::new(variable("CARGO")?);
    cargo
        .current_dir(root)
        .args(["build", "--package", "ratelimit-ebpf"])
        .args(["--features", features])
        .args(binaries.iter().flat_map(|binary| ["--bin", *binary]))
        .args(["--profile", PROFILE, "--target", TARGET])
        .args(["-Z", "build-std=core"])
        // The BPF target comes without a built `core`; building one is not stable yet.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTC", rustc)
        .env("CARGO_TARGET_DIR", target_dir)
        .env("CARGO_BUILD_BUILD_DIR", target_dir);
    if logs() {
        cargo.args(["--features", "log"]);
        // The daemon reads the log only where there is one.
        println!("cargo::rustc-cfg=bpf_log");
    }
    for leak in LEAKS {
        cargo.env_remove(leak);
    }
    let status = cargo
        .status()
        .map_err(|error| format!("cannot run {cargo:?}: {error}"))?;
    if !status.success() {
        return Err(format!(
            "the BPF object was not built by {}: {status}; its messages are below",
            rustc.display()
        ));
    }
    Ok(target_dir.join(TARGET).join(PROFILE))
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|error| format!("{name}: {error}"))
}
