//! What somebody may have meant by a word that is not known.

/// Words at least as similar as this are one slip of the finger apart.
const SIMILARITY_MIN: f64 = 0.8;

/// Keys that stand above the first table: behind one, they belong to it.
const TOP_LEVEL: [&str; 2] = ["observe", "on_stop"];

/// What to write for the unknown `key` of a table that knows `known`.
pub fn key(key: &str, known: &[&str]) -> String {
    if let Some(close) = closest(key, known) {
        return format!("did you mean `{close}`?");
    }
    if TOP_LEVEL.contains(&key) {
        return format!("move `{key}` up, above the first [table]");
    }
    format!("remove it; known here: {}", known.join(", "))
}

/// What to write for the unknown `word` where one of `known` is wanted.
pub fn word(word: &str, known: &[&str]) -> String {
    if let Some(close) = closest(word, known) {
        return format!("did you mean \"{close}\"?");
    }
    let known: Vec<String> = known.iter().map(|word| format!("\"{word}\"")).collect();
    format!("write {}", known.join(" or "))
}

fn closest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let scored = known
        .iter()
        .map(|known| (strsim::jaro_winkler(word, known), *known));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 >= SIMILARITY_MIN).then_some(best.1)
}
