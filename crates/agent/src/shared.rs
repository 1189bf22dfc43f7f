//! Texts that many rows have: made once, and shared.

use std::collections::HashMap;
use std::hash::Hash;

use transom_spool::Text;

/// More are begun anew.
const MOST: usize = 4096;

/// By what they are made of.
#[derive(Clone)]
pub struct Shared<K> {
    known: HashMap<K, Text>,
    last: Option<(K, Text)>,
}

impl<K> Default for Shared<K> {
    fn default() -> Shared<K> {
        Shared { known: HashMap::new(), last: None }
    }
}

impl<K: Copy + Eq + Hash> Shared<K> {
    pub fn text(&mut self, of: K, make: impl FnOnce() -> Text) -> Text {
        if let Some((key, text)) = &self.last
            && *key == of
        {
            return text.clone();
        }
        if self.known.len() >= MOST {
            self.known.clear();
        }
        let text = self.known.entry(of).or_insert_with(make).clone();
        self.last = Some((of, text.clone()));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_made_once_and_however_many_there_are_few_are_kept() {
        let mut shared = Shared::default();
        let one = shared.text(1, || "one".into());
        shared.text(2, || "two".into());
        let again = shared.text(1, || unreachable!());
        assert!(Text::ptr_eq(&one, &again));
        for key in 3..10_000 {
            assert_eq!(*shared.text(key, || key.to_string().into()), key.to_string());
        }
        assert!(shared.known.len() <= MOST);
    }
}
