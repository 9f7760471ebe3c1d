//! The configuration that `protect` writes. It adds a file, and replaces only files that it wrote
//! itself, unless `--replace` is given.

use std::{
    fs::{self, OpenOptions},
    io::{self, ErrorKind, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use ratelimit_core::config::{self, Config, File};

use crate::{
    commands::{config::wrong, protect::ProtectArguments},
    exit_code::ExitCode,
    failure::Failure,
    replace_file,
};

/// The file to write, and the resulting configuration.
pub struct Plan {
    main: PathBuf,
    /// The file to write; `None` if the configuration is right already.
    pub new: Option<File>,
    pub config: Config,
}

impl Plan {
    /// Decides where the interface belongs. A missing `main` is written; beside an existing one the
    /// interface gets a file in `conf.d`.
    pub fn of(arguments: &ProtectArguments, main: &Path) -> Result<Self, Failure> {
        let ProtectArguments {
            interface: name,
            observe,
            replace,
            ..
        } = arguments;
        let invalid = |error: config::ConfigError| wrong(main, &error.to_string());
        let mut files = if main.exists() {
            config::read(main).map_err(invalid)?
        } else {
            Vec::new()
        };
        let is_of_main = *replace || files.first().is_none_or(|it| is_own(it, name, true));
        let path = if is_of_main {
            main.to_owned()
        } else {
            main.with_file_name(format!("conf.d/protect-{name}.toml"))
        };
        let old = files.iter().position(|it| it.path == path);
        let is_own = old.is_none_or(|old| is_own(&files[old], name, is_of_main));
        let names = |config: &Config| config.interfaces.iter().any(|it| &it.name == name);
        let is_named =
            !files.is_empty() && config::parse(&files).is_ok_and(|(config, _)| names(&config));
        let text = text(name, *observe, is_of_main);
        let new = File { path, text };
        let is_new = match old {
            Some(old) => files[old].text != new.text && (is_own || *replace),
            None => !is_named,
        };
        if is_new {
            match old {
                Some(old) => files[old] = new.clone(),
                None => files.push(new.clone()),
            }
        }
        let (config, _) = config::parse(&files).map_err(invalid)?;
        if config.observes_on(Some(name)) != *observe {
            let (is, wanted) = if *observe {
                ("enforces", "true")
            } else {
                ("only observes", "false")
            };
            let main = main.display();
            return Err(Failure::refused(format!(
                "the configuration {is} on {name}, and `protect` changes only files that it wrote"
            ))
            .hint(format!(
                "set observe = {wanted} in {main}, or use --replace to replace that file"
            )));
        }
        Ok(Self {
            main: main.to_owned(),
            new: is_new.then_some(new),
            config,
        })
    }

    /// Writes the file, and returns the copy of the one it replaced.
    pub fn write(&self) -> Result<Option<PathBuf>, Failure> {
        let Some(File { path, text }) = &self.new else {
            return Ok(None);
        };
        let written = if path.exists() {
            replace_file::replace(path, text).map(Some)
        } else {
            create(path, text).map(|()| None)
        };
        written.map_err(|error| {
            let code = if error.kind() == ErrorKind::PermissionDenied {
                ExitCode::NoPermission
            } else {
                ExitCode::Refused
            };
            Failure::new(code, format!("cannot write {}: {error}", path.display()))
        })
    }

    /// Describes the result in one line.
    pub fn sentence(&self) -> String {
        match &self.new {
            Some(new) => format!("configuration: wrote {}", new.path.display()),
            None => format!("configuration: {} (unchanged)", self.main.display()),
        }
    }
}

fn is_own(file: &File, name: &str, is_of_main: bool) -> bool {
    [true, false]
        .map(|observe| text(name, observe, is_of_main))
        .contains(&file.text)
}

fn text(name: &str, observe: bool, is_of_main: bool) -> String {
    let observe = if observe { "observe = true\n" } else { "" };
    let limits = if is_of_main {
        "\n[policy.default]\nlimits = [{ packets = 1000, per = \"1s\" }]\n"
    } else {
        ""
    };
    format!(
        "# Written by `rlctl protect`. ratelimit.toml(5) describes every key.\n\
         [[interface]]\n\
         name = \"{name}\"\n\
         {observe}{limits}"
    )
}

/// Creates a file that the daemon can read with the rights of its own user.
fn create(path: &Path, text: &str) -> io::Result<()> {
    let parent = path.parent().filter(|it| !it.exists());
    if let Some(parent) = parent {
        fs::create_dir_all(parent)?;
        fs::set_permissions(parent, fs::Permissions::from_mode(0o755))?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.set_permissions(fs::Permissions::from_mode(0o644))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKAGED: &str = include_str!("../../../../contrib/debian/config.toml");

    struct Host {
        directory: tempfile::TempDir,
    }

    impl Host {
        fn with(main: Option<&str>) -> Self {
            let directory = tempfile::tempdir().unwrap();
            let host = Self { directory };
            if let Some(text) = main {
                fs::write(host.main(), text).unwrap();
            }
            host
        }

        fn main(&self) -> PathBuf {
            self.directory.path().join("config.toml")
        }

        fn protect(&self, options: &str) -> Result<(Config, Option<PathBuf>), String> {
            let arguments = ProtectArguments {
                interface: "eth0".to_owned(),
                observe: options.contains("observe"),
                replace: options.contains("replace"),
                config: self.main(),
            };
            let plan = Plan::of(&arguments, &self.main()).map_err(|it| it.refused.error)?;
            let before = plan.write().unwrap();
            // The file on disk has the planned content.
            let (loaded, _) = config::inspect(&self.main()).unwrap();
            assert_eq!(loaded.interfaces, plan.config.interfaces);
            Ok((loaded, before))
        }
    }

    #[test]
    fn a_missing_configuration_is_written_and_its_dry_run_ends() {
        let host = Host::with(None);
        let (config, before) = host.protect("observe").unwrap();
        assert!(config.observes_on(Some("eth0")));
        assert_eq!((config.default_policy.limits.len(), before), (1, None));
        let (config, before) = host.protect("").unwrap();
        assert!(!config.observes_on(Some("eth0")));
        assert!(before.is_some());
        assert_eq!(host.protect("").unwrap().1, None);
    }

    #[test]
    fn the_packaged_configuration_stays_as_it_is() {
        let host = Host::with(Some(PACKAGED));
        for options in ["observe", "", ""] {
            let (config, _) = host.protect(options).unwrap();
            assert_eq!(config.observes_on(Some("eth0")), options == "observe");
            assert_eq!(config.interfaces[0].name, "eth0");
        }
        assert_eq!(fs::read_to_string(host.main()).unwrap(), PACKAGED);
    }

    #[test]
    fn a_configuration_of_somebody_else_is_replaced_only_by_request() {
        let other = "interface = [{ name = \"eth0\" }]\n[policy.default]\nlimits = []\n";
        let host = Host::with(Some(other));
        let (config, before) = host.protect("").unwrap();
        assert_eq!((config.default_policy.limits.len(), before), (0, None));
        let error = host.protect("observe").unwrap_err();
        assert!(
            error.starts_with("the configuration enforces on eth0"),
            "{error}"
        );
        assert_eq!(fs::read_to_string(host.main()).unwrap(), other);
        let (config, before) = host.protect("observe replace").unwrap();
        assert!(config.observes_on(Some("eth0")));
        assert_eq!(fs::read_to_string(before.unwrap()).unwrap(), other);
    }

    #[test]
    fn a_dry_run_of_everything_is_not_reported_as_protection() {
        let observing = PACKAGED.replace("#observe", "observe");
        let host = Host::with(Some(&observing));
        let error = host.protect("").unwrap_err();
        assert!(
            error.starts_with("the configuration only observes"),
            "{error}"
        );
        host.protect("observe").unwrap();
    }

    #[test]
    fn an_edited_file_is_kept() {
        let host = Host::with(Some(PACKAGED));
        host.protect("observe").unwrap();
        let file = host.main().with_file_name("conf.d/protect-eth0.toml");
        let edited = fs::read_to_string(&file).unwrap() + "mode = \"generic\"\n";
        fs::write(&file, &edited).unwrap();
        host.protect("").unwrap_err();
        host.protect("observe").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), edited);
    }

    #[test]
    fn a_name_that_is_no_interface_is_refused() {
        let host = Host::with(None);
        let arguments = ProtectArguments {
            interface: "a\"\nb".to_owned(),
            observe: false,
            replace: false,
            config: host.main(),
        };
        assert!(Plan::of(&arguments, &host.main()).is_err());
    }
}
