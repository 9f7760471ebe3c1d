//! The kernel, its BPF file system, and the daemon.

use std::{fs, io::ErrorKind, os::unix::fs::MetadataExt, path::Path};

use aya::programs::loaded_programs;
use ratelimit_core::{
    api::Status,
    config::{self, Config, ConfigError},
    diagnostic::Diagnostic,
};

use ratelimit_interface::helpers;

use super::{Circumstances, finding::Finding};
use crate::{client::Answer, exit_code::ExitCode, failure::Failure};

/// The oldest kernel that is tested.
const OLDEST: (u32, u32) = (6, 1);
const JIT: &str = "/proc/sys/net/core/bpf_jit_enable";
const BTF: &str = "/sys/kernel/btf/vmlinux";
/// The magic number of a bpffs, `BPF_FS_MAGIC` of linux/magic.h.
const BPF_FS_MAGIC: u64 = 0xcafe_4a11;

/// Whether the kernel has the features that the program needs.
pub fn kernel() -> Finding {
    let name = rustix::system::uname();
    judge(&name.release().to_string_lossy(), helpers::missing().ok())
}

/// `missing` is `None` if only root can find it out.
fn judge(release: &str, missing: Option<Vec<&str>>) -> Finding {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    let mut next = || numbers.next()?.parse::<u32>().ok();
    let is_tested = next().zip(next()).is_some_and(|version| version >= OLDEST);
    let (check, found) = ("kernel", format!("Linux {release}"));
    let (major, minor) = OLDEST;
    match missing {
        Some(missing) if !missing.is_empty() => {
            let why = format!(
                "it lacks {}; Linux {major}.{minor} and later have what is needed",
                missing.join(", ")
            );
            Finding::error(check, found, why)
        }
        Some(_) | None if is_tested => Finding::ok(check, found),
        Some(_) => Finding::ok(
            check,
            format!("{found}, with the BPF helpers of {major}.{minor}"),
        ),
        None => {
            let why =
                format!("older than {major}.{minor}; only root can check which BPF helpers it has");
            Finding::unknown(check, found, why).fix("sudo rlctl doctor")
        }
    }
}

/// Whether BPF programs are compiled to machine code.
pub fn jit() -> Finding {
    let text = fs::read_to_string(JIT);
    // The setting exists only in the first network namespace. Root can infer it from loaded
    // programs.
    let is_hidden = matches!(&text, Err(error) if error.kind() == ErrorKind::NotFound);
    let mut programs = loaded_programs().filter_map(Result::ok);
    if is_hidden && programs.any(|program| program.size_jitted() > 0) {
        return Finding::ok("bpf-jit", "enabled");
    }
    jit_of(text.as_deref().map_err(std::io::Error::kind))
}

fn jit_of(text: Result<&str, ErrorKind>) -> Finding {
    let check = "bpf-jit";
    let mend = "sysctl -w net.core.bpf_jit_enable=1";
    match text.map(str::trim) {
        Ok("1") => Finding::ok(check, "on"),
        Ok("2") => {
            let why = "the kernel writes each compiled program to its log";
            Finding::warning(check, "on, for debugging", why).fix(mend)
        }
        Ok("0") => {
            let why = "the kernel interprets the program, at several times the cost per packet";
            Finding::warning(check, "off", why).fix(mend)
        }
        Err(ErrorKind::NotFound) => {
            let why = "only the first network namespace has the setting, \
                       and a kernel without JIT has none";
            Finding::unknown(check, "not shown here", why)
                .fix("nsenter --target 1 --net sysctl net.core.bpf_jit_enable")
        }
        other => Finding::unknown(check, "unread", format!("{JIT}: {other:?}"))
            .fix("sysctl net.core.bpf_jit_enable"),
    }
}

/// Whether the kernel describes its types.
pub fn btf() -> Finding {
    if Path::new(BTF).exists() {
        return Finding::ok("btf", BTF);
    }
    let why = "kernels without BTF are not supported: CONFIG_DEBUG_INFO_BTF=y is required";
    Finding::error("btf", format!("{BTF} does not exist"), why)
}

/// Whether a daemon answers.
pub fn daemon(answer: &Result<Answer<Status>, Failure>) -> Finding {
    let check = "daemon";
    let failure = match answer {
        Ok(answer) => {
            let Status { version, pid, .. } = &answer.value;
            return Finding::ok(check, format!("ratelimitd {version}, process {pid}"));
        }
        Err(failure) => failure,
    };
    let found = failure.refused.error.clone();
    if failure.code == ExitCode::NoPermission {
        let why = "only root and the group of the socket can connect to the daemon";
        return Finding::unknown(check, found, why).fix("sudo rlctl doctor");
    }
    let why = "the kernel still enforces the last state, but nothing can change it";
    Finding::warning(check, found, why).fix("systemctl start ratelimitd")
}

/// Reports that the configuration could not be read. The interfaces are then known from the daemon
/// only.
pub fn unread_configuration(file: &Path, error: &ConfigError, daemon_answers: bool) -> Finding {
    let check = "configuration";
    let diagnostic = error.diagnostics().first();
    let found = diagnostic.map_or_else(|| error.to_string(), |it| it.problem.message.clone());
    let found = format!("{}: {found}", file.display());
    let finding = match (fs::read(file), daemon_answers) {
        (Err(error), _) => {
            let why = "without it the interfaces are unknown";
            let finding = Finding::unknown(check, found, why);
            if error.kind() == ErrorKind::NotFound {
                return finding.fix("create it, or use --config FILE");
            }
            finding
        }
        (Ok(_), true) => {
            let why = "the next reload will fail and the running configuration stays active";
            Finding::warning(check, found, why)
        }
        (Ok(_), false) => {
            let why = "a daemon without a previous valid configuration will not start";
            Finding::error(check, found, why)
        }
    };
    finding.fix(format!("rlctl config check {}", file.display()))
}

/// Files of secrets that are world-readable.
pub fn secrets(config: &Config) -> Vec<Finding> {
    let finding = |it: Diagnostic| {
        let file = it.file.unwrap_or_default();
        let found = format!("{}: {}", file.display(), it.problem.message);
        let why = "whoever reads it can impersonate or control this host";
        Finding::warning("secrets", found, why).fix(it.problem.hint)
    };
    config::exposed(config).into_iter().map(finding).collect()
}

pub fn bpffs(known: &Circumstances) -> Finding {
    let paths = known.config.as_ref().map(|config| config.paths.clone());
    let pins = paths.unwrap_or_default().pins;
    let place = pins.parent().unwrap_or(&pins);
    bpffs_at(place)
}

fn bpffs_at(place: &Path) -> Finding {
    let check = "bpffs";
    let shown = place.display();
    let looked = rustix::fs::statfs(place)
        .map_err(Into::into)
        .and_then(|of| Ok((of, fs::metadata(place)?)));
    let (file_system, metadata) = match looked {
        Ok(looked) => looked,
        Err(error) => {
            let error: std::io::Error = error;
            return Finding::unknown(check, format!("{shown}: {error}"), "cannot check it")
                .fix(format!("sudo stat --file-system {shown}"));
        }
    };
    #[expect(clippy::cast_sign_loss, reason = "a magic number")]
    let magic = file_system.f_type as u64;
    if magic & 0xffff_ffff != BPF_FS_MAGIC {
        let found = format!("{shown} is not a bpffs");
        let why = "maps and links are pinned there; ratelimitd does not start without it";
        return Finding::error(check, found, why).fix(format!("mount -t bpf bpf {shown}"));
    }
    let mode = metadata.mode() & 0o7777;
    let (user, group) = (metadata.uid(), metadata.gid());
    let found = format!("{shown}, mode {mode:04o}, of user {user} and group {group}");
    let others_write = mode & 0o022 != 0;
    let is_sticky = mode & 0o1000 != 0;
    if others_write && !is_sticky {
        let why = "other users can remove or replace pins";
        return Finding::warning(check, found, why).fix(format!("chmod 0700 {shown}"));
    }
    Finding::ok(check, found)
}

#[cfg(test)]
mod tests {
    use super::{super::finding::State, *};

    #[test]
    fn a_kernel_is_judged_by_its_helpers_and_not_by_its_version() {
        let lacking = Some(vec!["bpf_xdp_load_bytes"]);
        for (release, missing, state) in [
            ("6.1.0-28-amd64", Some(Vec::new()), State::Ok),
            ("10.0", None, State::Ok),
            ("5.14.0-503.el9.x86_64", Some(Vec::new()), State::Ok),
            ("5.14.0-503.el9.x86_64", None, State::Unknown),
            ("5.15.0-130-generic", lacking.clone(), State::Error),
            ("6.18.44", lacking, State::Error),
        ] {
            let finding = judge(release, missing);
            assert_eq!(finding.state, state, "{finding:?}");
            let is_named = finding
                .why
                .is_some_and(|it| it.contains("bpf_xdp_load_bytes"));
            assert_eq!(is_named, state == State::Error, "{release}");
        }
    }

    #[test]
    fn a_compiler_that_is_off_is_turned_on() {
        assert_eq!(jit_of(Ok("1\n")).state, State::Ok);
        for text in ["0\n", "2\n"] {
            let finding = jit_of(Ok(text));
            assert_eq!(finding.state, State::Warning);
            let fix = finding.fix.unwrap();
            assert_eq!(fix, "sysctl -w net.core.bpf_jit_enable=1");
        }
        let hidden = jit_of(Err(ErrorKind::NotFound));
        assert_eq!(hidden.state, State::Unknown);
    }

    #[test]
    fn a_directory_that_is_no_bpffs_is_named_with_the_mount() {
        let finding = bpffs_at(Path::new("/proc"));
        assert_eq!(finding.state, State::Error);
        assert_eq!(finding.fix.unwrap(), "mount -t bpf bpf /proc");
        let missing = bpffs_at(Path::new("/no/such/place"));
        assert_eq!(missing.state, State::Unknown);
    }
}
