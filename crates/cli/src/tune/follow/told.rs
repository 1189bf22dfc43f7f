//! What a follower says: each change once, on the standard output; what it does not believe, too.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use serde_json::{Value, json};
use transom_output::note;

/// Of a reason: parts of it are from files that anybody may have written.
const LONGEST: usize = 600;

pub struct Told {
    json: bool,
    /// The last state, without numbers that only count on.
    state: Option<String>,
    /// The last file that was not believed, and why.
    refused: Option<(Vec<u8>, String)>,
    not_kept: bool,
    /// Why the file of the trusted keys was refused last.
    keys_refused: Option<String>,
}

impl Told {
    pub fn new(json: bool) -> Told {
        Told { json, state: None, refused: None, not_kept: false, keys_refused: None }
    }

    pub fn keys_are_good(&mut self) {
        self.keys_refused = None;
    }

    pub fn keys_refused(&mut self, error: &anyhow::Error) {
        let why = format!("{error:#}");
        if self.keys_refused.as_ref() != Some(&why) {
            note!("transom: {why}; the keys that it had before are trusted as they were");
            self.keys_refused = Some(why);
        }
    }

    pub fn in_force(&mut self, generation: u64) -> Result<()> {
        let state = format!("generation {generation} is in force");
        if self.state.as_ref() == Some(&state) {
            return Ok(());
        }
        self.line(&state, "in_force", json!({ "generation": generation }))?;
        self.state = Some(state);
        Ok(())
    }

    pub fn nothing(&mut self, why: &str) -> Result<()> {
        let why = printable(why);
        let state = without_numbers(&why);
        if self.state.as_ref() == Some(&state) {
            return Ok(());
        }
        self.line(&format!("nothing is in force: {why}"), "nothing", json!({ "why": why }))?;
        self.state = Some(state);
        Ok(())
    }

    pub fn believed(&mut self) {
        self.refused = None;
    }

    pub fn not_believed(&mut self, file: &[u8], error: &anyhow::Error) -> Result<()> {
        let why = printable(&format!("{error:#}"));
        let refused = (file.to_vec(), without_numbers(&why));
        if self.refused.as_ref() == Some(&refused) {
            return Ok(());
        }
        self.refused = Some(refused);
        self.line(&format!("not believed: {why}"), "not_believed", json!({ "why": why }))
    }

    pub fn not_kept(&mut self, error: &anyhow::Error) {
        if !std::mem::replace(&mut self.not_kept, true) {
            note!("transom: what was seen is not kept for the next start: {error:#}");
        }
    }

    fn line(&self, text: &str, what: &str, mut fields: Value) -> Result<()> {
        let mut out = transom_output::standard_output();
        if self.json {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            fields["at_s"] = now.as_secs().into();
            fields["what"] = what.into();
            writeln!(out, "{fields}")?;
        } else {
            writeln!(out, "{text}")?;
        }
        Ok(out.flush()?)
    }
}

/// One line of it, without anything that a terminal would obey.
fn printable(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    plain.take(LONGEST).collect()
}

fn without_numbers(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_digit()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_says_of_itself_moves_no_cursor_and_fills_no_log() {
        assert_eq!(printable("signed as '\u{1b}[2J\nx'"), "signed as ' [2J x'");
        assert_eq!(printable(&"x".repeat(1 << 20)).len(), LONGEST);
    }

    #[test]
    fn seconds_that_count_on_are_no_news() {
        let ago = |seconds| without_numbers(&format!("its lease was over {seconds} s ago"));
        assert_eq!(ago(9), ago(10));
    }
}
