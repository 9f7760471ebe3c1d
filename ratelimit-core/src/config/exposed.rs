//! Files with a secret that others may read.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

use super::{Config, crowdsec::Key};
use crate::diagnostic::{Diagnostic, Problem};

/// Mode bit of world-readable files.
const OTHERS_READ: u32 = 0o004;

/// Returns configured files of secrets that are world-readable. Files that cannot be examined are
/// skipped; reading them reports the error.
pub fn exposed(config: &Config) -> Vec<Diagnostic> {
    let crowdsec = config.crowdsec.as_ref();
    let cluster = config.cluster.as_ref();
    let certificate = cluster.and_then(|it| it.certificate.as_ref());
    let token = config.dashboard_token.as_deref();
    let named = [
        crowdsec.and_then(|it| file("key_file of [crowdsec]", &it.key)),
        cluster.and_then(|it| file("secret_file of [cluster]", &it.secret)),
        certificate.map(|it| ("key_file of [cluster]", it.key_file.as_path())),
        token.map(|path| ("token_file of [metrics]", path)),
    ];
    let named = named.into_iter().flatten();
    named
        .filter_map(|(key, path)| diagnose(key, path))
        .collect()
}

/// The file of a secret, with what names it.
fn file<'s>(key: &'static str, secret: &'s Key) -> Option<(&'static str, &'s Path)> {
    match secret {
        Key::File(path) => Some((key, path)),
        Key::Given(_) => None,
    }
}

fn diagnose(key: &str, path: &Path) -> Option<Diagnostic> {
    let mode = fs::metadata(path).ok()?.mode() & 0o7777;
    (mode & OTHERS_READ != 0).then(|| {
        let message = format!("{key} is readable by every user: mode {mode:04o}");
        let path = path.display();
        let hint = format!("chmod 0640 {path} && chgrp ratelimit-files {path}");
        Diagnostic {
            file: Some(path.to_string().into()),
            position: None,
            problem: Problem::new(message, hint),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::config::{File, parse};

    #[test]
    fn a_secret_that_everybody_may_read_is_reported_with_the_fix() {
        let directory = tempfile::tempdir().unwrap();
        let [secret, token] = ["secret", "token"].map(|name| directory.path().join(name));
        for file in [&secret, &token] {
            fs::write(file, "0123456789abcdef0123456789abcdef").unwrap();
        }
        let text = format!(
            "[cluster]\n\
             url = \"redis://h:1\"\n\
             node = \"a\"\n\
             secret_file = \"{}\"\n\
             [metrics]\n\
             dashboard = true\n\
             token_file = \"{}\"\n\
             [policy.default]\n\
             limits = []\n\
             [[interface]]\n\
             name = \"eth0\"\n",
            secret.display(),
            token.display()
        );
        let file = File {
            path: "/c".into(),
            text,
        };
        let (config, _) = parse(&[file]).unwrap();
        let told = |mode| {
            fs::set_permissions(&secret, fs::Permissions::from_mode(mode)).unwrap();
            fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
            let told = exposed(&config);
            told.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(told(0o640), [""; 0]);
        let said = told(0o644).join("\n");
        let shown = secret.display();
        for part in [
            format!("{shown}: secret_file of [cluster] is readable by every user"),
            format!("hint: chmod 0640 {shown}"),
        ] {
            assert!(said.contains(&part), "{said}");
        }
    }
}
