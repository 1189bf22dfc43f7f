//! A question as it goes over Zenoh. It names a connection and a time; paths, commands and
//! conditions cannot be said.

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

pub const VERSION: u32 = 1;
/// Of the JSON text.
pub const MOST_BYTES: usize = 1024;
/// A day, and what clocks and times in whole seconds may differ by.
pub const LONGEST_US: i64 = 25 * 3_600_000_000;

/// What times in whole seconds and clocks that differ may be wrong by.
pub const SLACK_US: i64 = 2_000_000;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    pub version: u32,
    pub want: Want,
    /// The socket's cookie, as rows have it.
    pub cookie: u64,
    /// The boot in which it has that cookie, if it is known.
    #[serde(default)]
    pub boot: Option<String>,
    /// First and last moment, µs since 1970.
    pub from_us: i64,
    pub to_us: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Want {
    #[value(skip)]
    Decisions,
    /// A page of its events: HTML
    Report,
    /// Its events for Wireshark
    Pcapng,
    /// Its events for Perfetto
    Perfetto,
}

impl Question {
    /// # Errors
    /// It is too long, no question, or a part of it cannot be answered: that part is named.
    pub fn parse(bytes: &[u8]) -> Result<Question> {
        let length = bytes.len();
        ensure!(
            length <= MOST_BYTES,
            "a question has at most {MOST_BYTES} bytes, and this {length}"
        );
        let question: Question = serde_json::from_slice(bytes).context("no question")?;
        question.check()?;
        Ok(question)
    }

    fn check(&self) -> Result<()> {
        let Question { version, boot, from_us, to_us, .. } = self;
        ensure!(
            *version == VERSION,
            "version: this host answers {VERSION}, and was asked {version}"
        );
        let is_boot = |boot: &String| {
            boot.len() == 32
                && boot.bytes().all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase())
        };
        ensure!(boot.as_ref().is_none_or(is_boot), "boot: it has 32 hexadecimal digits");
        // Beyond, times are none that a calendar has.
        let years = 0..=i64::from(u32::MAX) * 1_000_000;
        ensure!(years.contains(from_us) && years.contains(to_us), "from_us, to_us: µs since 1970");
        ensure!(from_us <= to_us, "to_us: it ends before it begins");
        let (asked, most) = ((to_us - from_us) / 1_000_000, LONGEST_US / 1_000_000);
        ensure!(
            to_us - from_us <= LONGEST_US,
            "to_us: at most {most} s at once, and not {asked} s"
        );
        Ok(())
    }

    pub fn text(&self) -> Result<String> {
        self.check()?;
        Ok(serde_json::to_string(self)?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = r#"{"version":1,"want":"decisions","cookie":7,"from_us":5,"to_us":9}"#;

    fn refusal(from: &str, to: &str) -> String {
        format!("{:#}", Question::parse(GOOD.replace(from, to).as_bytes()).unwrap_err())
    }

    #[test]
    fn what_is_no_question_is_refused_with_the_name_of_the_part() {
        let question = Question::parse(GOOD.as_bytes()).unwrap();
        assert_eq!(Question::parse(question.text().unwrap().as_bytes()).unwrap(), question);
        for (from, to, said) in [
            (":1,", ":2,", "version: this host answers 1, and was asked 2"),
            ("decisions", "secrets", "unknown variant `secrets`"),
            ("\"cookie\":7", "\"cookie\":\"7\"", "invalid type: string \"7\", expected u64"),
            ("\"cookie\":7,", "", "missing field `cookie`"),
            ("7,", r#"7,"path":"/etc/passwd","#, "unknown field `path`"),
            ("7,", r#"7,"boot":"../../..","#, "boot: it has 32"),
            ("\"to_us\":9", "\"to_us\":4", "to_us: it ends before"),
            ("\"to_us\":9", "\"to_us\":90000000006", "to_us: at most 90000 s at once"),
            ("\"from_us\":5", "\"from_us\":-5", "from_us, to_us: µs since 1970"),
            ("}", "", "EOF while parsing"),
        ] {
            let refusal = refusal(from, to);
            assert!(refusal.contains(said), "{refusal}");
        }
        assert!(
            refusal("7,", &format!("7,{}", " ".repeat(MOST_BYTES))).contains("at most 1024 bytes")
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_question_or_a_refusal(bytes: Vec<u8>, cut in 0..GOOD.len(), to: u8) {
            let _ = Question::parse(&bytes);
            let mut damaged = GOOD.as_bytes().to_vec();
            damaged[cut] = to;
            let _ = Question::parse(&damaged);
        }
    }
}
