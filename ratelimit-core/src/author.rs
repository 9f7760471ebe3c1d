//! The author of a change: the user that the kernel vouches for, followed by the user of `sudo` as
//! a claim: `root (sudo alice)`.

const BEGIN: &str = " (sudo ";
const END: char = ')';
/// The longest name of a user, as `useradd` takes it.
const NAME_BYTES_MAX: usize = 32;

/// Returns the author including the user who ran `sudo`. Invalid user names are ignored.
pub fn on_behalf_of(peer: &str, claimed: &str) -> String {
    if is_name(claimed) && claimed != peer {
        format!("{peer}{BEGIN}{claimed}{END}")
    } else {
        peer.to_owned()
    }
}

/// Whether a text may be the name of a user.
pub fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.chars().all(fits)
}

/// The user that the kernel vouches for, and the one of `sudo`.
pub fn parts(author: &str) -> (&str, Option<&str>) {
    let found = author
        .split_once(BEGIN)
        .and_then(|(peer, rest)| Some((peer, rest.strip_suffix(END)?)));
    found.map_or((author, None), |(peer, claimed)| (peer, Some(claimed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_stands_beside_who_the_kernel_vouches_for() {
        for (claimed, author, reported) in [
            ("alice", "root (sudo alice)", ("root", Some("alice"))),
            ("root", "root", ("root", None)),
            ("", "root", ("root", None)),
            ("al ice", "root", ("root", None)),
            ("x) (sudo bob", "root", ("root", None)),
            ("a\nb", "root", ("root", None)),
        ] {
            assert_eq!(on_behalf_of("root", claimed), author);
            assert_eq!(parts(author), reported);
        }
    }
}
