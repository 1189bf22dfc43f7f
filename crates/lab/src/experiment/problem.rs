//! What is wrong with an experiment file, in words that lead to the line and the remedy.

use std::fmt;

/// One thing wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Dotted key, `claims.0.of.flow`; empty: the file as a whole.
    pub key: String,
    pub what: String,
    pub remedy: String,
}

impl Problem {
    pub fn new(
        key: impl Into<String>,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Problem {
        Problem { key: key.into(), what: what.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.key.is_empty() {
            write!(f, "`{}`: ", self.key)?;
        }
        f.write_str(&self.what)?;
        if self.remedy.is_empty() { Ok(()) } else { write!(f, "; {}", self.remedy) }
    }
}

/// "did you mean `x`?", or all there are.
pub fn instead<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    if known.is_empty() {
        return "there is none".to_owned();
    }
    let begun = known.iter().find(|name| word.len() > 2 && name.starts_with(word));
    let nearest = known.iter().min_by_key(|name| distance(word, name));
    let near = nearest.filter(|name| distance(word, name) <= word.chars().count().max(4) / 2);
    match begun.or(near) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("known: {}", known.join(", ")),
    }
}

/// Levenshtein's distance: letters put in, taken out, or replaced.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_counts_letters() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("rtt_ms", "rtt_ms"), 0);
    }

    #[test]
    fn a_near_name_is_proposed_and_a_far_one_lists_all() {
        assert_eq!(instead("rtt_mss", ["rtt_ms", "up"]), "did you mean `rtt_ms`?");
        assert_eq!(instead("colour", ["rtt_ms", "up"]), "known: rtt_ms, up");
    }
}
