//! What a host answers.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The last decisions of a connection that an answer has.
pub const MOST_DECISIONS: usize = 500;
/// Of a page or file that is fetched.
pub const MOST_FILE_KIB: u64 = 65_536;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    pub host: String,
    pub state: State,
    /// In words, where `decisions` are not all that there was.
    #[serde(default)]
    pub why: Option<String>,
    /// The connection's last row in that time, without what is said of persons.
    #[serde(default)]
    pub connection: Option<Map<String, Value>>,
    /// Rows of the table `decisions`, oldest first.
    #[serde(default)]
    pub decisions: Vec<Map<String, Value>>,
    /// Earlier ones, for which there was no room.
    #[serde(default)]
    pub left_out: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// There are some.
    Decisions,
    /// The kernel decided nothing about it.
    None,
    /// The agent had given up level 1, or was not to have it.
    #[serde(rename = "level_0")]
    Level0,
    /// The ring does not have them any more.
    Removed,
    /// They are in no finished file yet.
    NotYet,
    /// There was no such connection, as far as is known.
    #[default]
    Unknown,
}

impl Reply {
    /// Whether it was recorded event by event.
    pub fn is_recorded(&self) -> bool {
        self.chosen().is_some()
    }

    /// Why it was.
    pub fn chosen(&self) -> Option<&str> {
        let chosen = self.connection.as_ref()?.get("chosen")?.as_str()?;
        (chosen != "no").then_some(chosen)
    }
}
