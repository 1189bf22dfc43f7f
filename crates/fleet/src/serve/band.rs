//! The five bands that verdicts are drawn in: a reader tells no twelve colours apart.

use crate::explain::judge::Side;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Band {
    Them,
    Network,
    Us,
    Window,
    Nobody,
}

impl Band {
    /// In the order in which they are stacked, from below.
    pub const ALL: [Band; 5] = [Band::Us, Band::Network, Band::Them, Band::Window, Band::Nobody];

    pub fn of(verdict: &str) -> Band {
        match (Side::of(verdict), verdict) {
            (Some(Side::Them), _) => Band::Them,
            (Some(Side::Network), _) => Band::Network,
            (Some(Side::Us), _) => Band::Us,
            (None, "cwnd") => Band::Window,
            (None, _) => Band::Nobody,
        }
    }

    pub fn index(self) -> usize {
        Band::ALL.iter().position(|band| *band == self).unwrap_or_default()
    }

    /// Of the style sheet.
    pub fn class(self) -> &'static str {
        match self {
            Band::Them => "them",
            Band::Network => "network",
            Band::Us => "us",
            Band::Window => "window",
            Band::Nobody => "nobody",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Band::Them => "their window",
            Band::Network => "losses, queues, handshakes",
            Band::Us => "send buffer here",
            Band::Window => "congestion window",
            Band::Nobody => "program, or too little to say",
        }
    }
}

/// A number for each band.
pub type Bands = [f64; Band::ALL.len()];
