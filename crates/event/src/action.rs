//! What Transom did to a connection, out of the two numbers of an `action` event.

use std::fmt;

use crate::{Algorithm, Event, Reason};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    pub algorithm: Algorithm,
    /// Segments; 0 = none.
    pub cap: u32,
    /// Segments; 0 = not said.
    pub initial_window: u8,
    /// Number of the policy's rule, from 1; 0 = none.
    pub rule: u8,
    /// `None` if a newer version of ours wrote it.
    pub reason: Option<Reason>,
}

impl Action {
    pub fn from_aux([first, cap]: [u32; 2]) -> Action {
        let [reason, rule, algorithm, initial_window] = first.to_le_bytes();
        Action {
            algorithm: Algorithm::from_number(algorithm.into()).unwrap_or(Algorithm::Other),
            cap,
            initial_window,
            rule,
            reason: Reason::from_number(reason.into()),
        }
    }

    pub fn aux(self) -> [u32; 2] {
        let reason = self.reason.map_or(0, |reason| reason as u8);
        let bytes = [reason, self.rule, self.algorithm as u8, self.initial_window];
        [u32::from_le_bytes(bytes), self.cap]
    }
}

/// `steady, cap 55, because it is unstable (rule 2)`
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.with_target(0))
    }
}

impl Action {
    /// The same with the target of `steady`, for which an event has no room; 0 = none.
    pub fn with_target(&self, target: u32) -> String {
        let mut parts = Vec::new();
        if self.algorithm != Algorithm::Before {
            parts.push(self.algorithm.name().to_owned());
        }
        if target != 0 {
            parts.push(format!("target {target}"));
        }
        if self.cap != 0 {
            parts.push(format!("cap {}", self.cap));
        }
        if self.initial_window != 0 {
            parts.push(format!("initial window {}", self.initial_window));
        }
        if parts.is_empty() {
            parts.push("as before".to_owned());
        }
        let because = self.reason.map_or("of a newer version's reason", Reason::because);
        let rule = if self.rule != 0 { format!(" (rule {})", self.rule) } else { String::new() };
        format!("{}, because {because}{rule}", parts.join(", "))
    }
}

impl Event {
    /// What an [`crate::Kind::Action`] event says.
    pub fn action(&self) -> Action {
        Action::from_aux(self.aux)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_says_what_and_why() {
        let action = Action {
            algorithm: Algorithm::Steady,
            cap: 55,
            initial_window: 0,
            rule: 2,
            reason: Some(Reason::Unstable),
        };
        assert_eq!(action.to_string(), "steady, cap 55, because it is unstable (rule 2)");
        assert_eq!(Action::from_aux(action.aux()), action);
    }

    #[test]
    fn the_way_back_is_told_too() {
        let action = Action {
            algorithm: Algorithm::Before,
            cap: 0,
            initial_window: 0,
            rule: 0,
            reason: Some(Reason::Cleared),
        };
        assert_eq!(action.to_string(), "as before, because the policy was cleared");
    }

    #[test]
    fn every_pair_of_numbers_is_read_and_said() {
        for first in [0, u32::MAX, 0x0b00_0000, 0x0000_00ff] {
            assert!(Action::from_aux([first, 7]).to_string().contains("cap 7"));
        }
    }
}
