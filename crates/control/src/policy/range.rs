//! `32ms..`, `..8ms`, `2..4`, `3`: both ends belong to it.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub least: u32,
    pub most: u32,
}

impl Range {
    /// Reads one whose ends `end` can read.
    ///
    /// # Errors
    /// What `end` says, or that the range is empty.
    pub fn parse(text: &str, end: impl Fn(&str) -> Result<u32, String>) -> Result<Range, String> {
        let (least, most) = match text.split_once("..") {
            None => {
                let only = end(text)?;
                (only, only)
            }
            Some((least, most)) => {
                let least = if least.trim().is_empty() { 0 } else { end(least)? };
                let most = if most.trim().is_empty() { u32::MAX } else { end(most)? };
                (least, most)
            }
        };
        if least > most {
            return Err(format!("'{text}' holds nothing: write the lesser end first"));
        }
        Ok(Range { least, most })
    }

    pub fn holds(&self, value: u32) -> bool {
        (self.least..=self.most).contains(&value)
    }

    /// The same with its ends an eighth farther out: for what is inside already.
    pub fn widened(&self) -> Range {
        Range { least: self.least - self.least / 8, most: self.most.saturating_add(self.most / 8) }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |n: u32| if n == u32::MAX || n == 0 { String::new() } else { n.to_string() };
        write!(f, "{}..{}", end(self.least), end(self.most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Result<u32, String> {
        text.trim().parse().map_err(|_| format!("'{text}' is no number"))
    }

    #[test]
    fn open_ends_reach_as_far_as_there_are_numbers() {
        assert_eq!(Range::parse("3..", number), Ok(Range { least: 3, most: u32::MAX }));
        assert_eq!(Range::parse("..4", number), Ok(Range { least: 0, most: 4 }));
        assert_eq!(Range::parse("7", number), Ok(Range { least: 7, most: 7 }));
    }

    #[test]
    fn an_empty_range_is_refused() {
        assert!(Range::parse("5..4", number).is_err());
        assert!(Range::parse("a..4", number).is_err());
    }

    #[test]
    fn what_is_inside_leaves_only_when_it_is_clearly_outside() {
        let range = Range { least: 32_000, most: 64_000 }.widened();
        assert!(range.holds(28_000) && range.holds(72_000));
        assert!(!range.holds(27_999) && !range.holds(72_001));
    }
}
