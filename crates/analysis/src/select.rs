//! Which connection a user means.

use crate::Analysis;

/// A connection as the command line names it: its cookie, its MPTCP token, a part of one of its
/// ends, or parts of both with a `-` between: `10.0.0.1:4000-10.0.0.2:5201`, `-:443`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Or a token of digits only.
    Cookie(u64),
    /// Part of either end, or a token.
    Either(String),
    /// Part of the local and of the remote end.
    Both(String, String),
}

impl From<&str> for Pattern {
    fn from(text: &str) -> Pattern {
        if let Ok(cookie) = text.trim_start_matches('#').parse() {
            return Pattern::Cookie(cookie);
        }
        match text.split_once('-') {
            Some((local, remote)) => Pattern::Both(local.to_owned(), remote.to_owned()),
            None => Pattern::Either(text.to_owned()),
        }
    }
}

/// Whether the part is the whole of the end, its address or its port, or a beginning of it.
fn is_part(end: &str, part: &str) -> bool {
    end.starts_with(part)
        || part.starts_with(':') && end.ends_with(part)
        || end.trim_start_matches('[').starts_with(part)
}

fn is_token(analysis: &Analysis, text: &str) -> bool {
    analysis.mptcp.is_some_and(|token| token.to_string() == text)
}

impl Pattern {
    pub fn matches(&self, analysis: &Analysis) -> bool {
        match self {
            // A token may consist of digits only.
            Pattern::Cookie(cookie) => {
                analysis.cookie == *cookie || is_token(analysis, &format!("{cookie:08}"))
            }
            Pattern::Either(part) => {
                is_part(&analysis.local, part)
                    || is_part(&analysis.remote, part)
                    || is_token(analysis, part)
            }
            Pattern::Both(local, remote) => {
                is_part(&analysis.local, local) && is_part(&analysis.remote, remote)
            }
        }
    }
}
