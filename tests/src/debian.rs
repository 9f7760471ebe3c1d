//! Programs of Debian packages, which `cargo xtask setup` unpacks beside what is built: their servers are not to run on this
//! host, and not to announce themselves anywhere, as installing them would make them do.

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

/// Where the files of a package are: the directory is to them what `/` is where it is installed.
#[must_use]
pub fn directory(package: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a process knows its program");
    let target = test.ancestors().nth(3);
    let target = target.expect("tests stand in a directory of a profile of the target directory");
    target.join("tools").join("debian").join(package)
}
