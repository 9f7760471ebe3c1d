//! Suggestions for unknown words.

use crate::diagnostic::Problem;

/// Words at least as similar as this are one slip of the finger apart.
const SIMILARITY_MIN: f64 = 0.8;

/// Keys above the first table; after a table header they would belong to it.
const TOP_LEVEL: [&str; 2] = ["observe", "on_stop"];

/// A correction: for people, and for programs if it is certain.
pub struct Suggestion {
    pub hint: String,
    pub replacement: Option<String>,
}

impl Suggestion {
    /// A problem with this as what to write.
    pub fn for_problem(self, message: &str) -> Problem {
        Problem::new(message, self.hint).replaced_by(self.replacement)
    }
}

/// Names of other programs for keys with another name here, with a hint.
const ELSEWHERE: [(&[&str], &str, &str); 3] = [
    (
        &["whitelist", "allowlist", "allow_list", "permit", "trusted"],
        "allow",
        "write [allow] with `sources`",
    ),
    (
        &[
            "blacklist",
            "blocklist",
            "denylist",
            "banlist",
            "drop",
            "deny",
            "ban",
        ],
        "list",
        "write a [list.NAME] with the `file` that has them, or ban with `rlctl ban`",
    ),
    (
        &["interfaces", "device", "devices", "iface", "dev"],
        "interface",
        "write an [[interface]] with `name` for each",
    ),
];

/// Suggests a correction for the unknown `key` of a table with the keys `known`.
pub fn key(key: &str, known: &[&str]) -> Suggestion {
    let mut elsewhere = ELSEWHERE.iter();
    let lower = key.to_ascii_lowercase();
    let meant = elsewhere.find(|(words, here, _)| {
        words.contains(&lower.as_str()) && known.contains(here) && known.contains(&"policy")
    });
    if let Some((_, _, hint)) = meant {
        return Suggestion {
            hint: (*hint).to_owned(),
            replacement: None,
        };
    }
    if let Some(close) = closest(key, known) {
        return Suggestion {
            hint: format!("did you mean `{close}`?"),
            replacement: Some(close.to_owned()),
        };
    }
    let hint = if TOP_LEVEL.contains(&key) {
        format!("move `{key}` up, above the first [table]")
    } else {
        format!("remove it; known here: {}", known.join(", "))
    };
    Suggestion {
        hint,
        replacement: None,
    }
}

/// Suggests a correction for the unknown quoted `word`, if one of `known` is expected.
pub fn word(word: &str, known: &[&str]) -> Suggestion {
    if let Some(close) = closest(word, known) {
        return Suggestion {
            hint: format!("did you mean \"{close}\"?"),
            replacement: Some(format!("\"{close}\"")),
        };
    }
    let known: Vec<String> = known.iter().map(|word| format!("\"{word}\"")).collect();
    Suggestion {
        hint: format!("write {}", known.join(" or ")),
        replacement: None,
    }
}

/// Whether one word is probably a typo of the other.
pub fn is_close(word: &str, meant: &str) -> bool {
    closest(word, &[meant]).is_some()
}

fn closest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let scored = known
        .iter()
        .map(|known| (strsim::jaro_winkler(word, known), *known));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 >= SIMILARITY_MIN).then_some(best.1)
}
