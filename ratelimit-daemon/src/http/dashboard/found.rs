//! The bans that dashboards look for. To find some takes a walk over all: however many look for
//! whatever, it takes a small part of the time.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    time::{Duration, Instant},
};

use ratelimit_core::api::{BanSearch, FoundBans};
use smart_default::SmartDefault;

use super::{Bytes, event};
use crate::{
    clock,
    control::{self, Handle, Unanswered},
};

/// Bans that are sent: the last ones.
const BANS: usize = 500;
/// Answers that are kept.
const ANSWERS_MAX: usize = 32;

/// Results of searches.
#[derive(SmartDefault)]
pub struct Found {
    answers: BTreeMap<String, (Instant, Bytes)>,
    #[default(clock::monotonic())]
    rest_until: Instant,
}

impl Found {
    /// Returns the bans with a text. `None` if the search is postponed because others have just
    /// used their turns.
    pub async fn find(
        &mut self,
        controller: &Handle,
        text: &str,
        lasts: Duration,
        part: u32,
    ) -> Result<Option<Bytes>, Unanswered> {
        let begun = clock::monotonic();
        let known = self.answers.get(text);
        if let Some((until, answer)) = known
            && begun < *until
        {
            return Ok(Some(answer.clone()));
        }
        if begun < self.rest_until {
            return Ok(known.map(|(_, answer)| answer.clone()));
        }
        let bans = control::queries::bans_in_parts(controller).await?;
        let search = BanSearch::new(text);
        let mut bans: Vec<_> = bans.into_iter().filter(|it| search.finds(it)).collect();
        let count = bans.len();
        bans.sort_unstable_by_key(|ban| Reverse(ban.since));
        bans.truncate(BANS);
        let text = text.to_owned();
        let answer = event(
            "bans",
            &FoundBans {
                text: text.clone(),
                count,
                bans,
            },
        );
        let now = clock::monotonic();
        self.rest_until = now + clock::elapsed(begun) * part;
        self.keep(text, now + lasts, answer.clone());
        Ok(Some(answer))
    }

    fn keep(&mut self, text: String, until: Instant, answer: Bytes) {
        if self.answers.len() >= ANSWERS_MAX && !self.answers.contains_key(&text) {
            let oldest = self.answers.iter().min_by_key(|(_, (until, _))| *until);
            if let Some(oldest) = oldest.map(|(text, _)| text.clone()) {
                self.answers.remove(&oldest);
            }
        }
        self.answers.insert(text, (until, answer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_looked_for_long_ago_gives_way() {
        let mut found = Found::default();
        let now = clock::monotonic();
        for number in 0..1000 {
            found.keep(
                number.to_string(),
                now + Duration::from_secs(number),
                Bytes::new(),
            );
        }
        assert_eq!(found.answers.len(), ANSWERS_MAX);
        assert!(found.answers.contains_key("999") && !found.answers.contains_key("0"));
    }
}
