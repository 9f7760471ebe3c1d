//! Programs of Debian packages and of `PyPI`, which `cargo xtask setup` unpacks beside what is
//! built. Their servers are not to run on this host, and not to announce themselves anywhere, as
//! installing them would make them do.

use std::path::PathBuf;

/// Leaves the test where this package was not unpacked.
#[macro_export]
macro_rules! require_package {
    ($name:literal) => {
        if !$crate::debian::directory($name).is_dir() {
            $crate::skip::report(concat!(
                "needs the Debian package ",
                $name,
                ", which `cargo xtask setup` unpacks"
            ));
            return;
        }
    };
}

/// Leaves the test where this program of `PyPI` was not installed.
#[macro_export]
macro_rules! require_python {
    ($name:literal) => {
        if !$crate::debian::python($name).is_file() {
            $crate::skip::report(concat!(
                "needs ",
                $name,
                ", which `cargo xtask setup` installs; or PyPI cannot be reached"
            ));
            return;
        }
    };
}

/// The path of a program from `PyPI`.
pub fn python(program: &str) -> PathBuf {
    tools().join("python/bin").join(program)
}

/// The directory with the files of a package, which corresponds to `/` where it is installed.
pub fn directory(package: &str) -> PathBuf {
    tools().join("debian").join(package)
}

fn tools() -> PathBuf {
    let this = std::env::current_exe().expect("a process knows its program");
    // A test is in `deps` of the directory of its profile, and the demo next to that.
    let mut directories = this.ancestors().skip(1);
    let profile = directories.find(|directory| !directory.ends_with("deps"));
    let target = profile.and_then(|profile| profile.parent());
    let target =
        target.expect("programs stand in a directory of a profile of the target directory");
    target.join("tools")
}
