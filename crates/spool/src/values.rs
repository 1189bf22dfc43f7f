//! The values of one column of some rows, as a file has them: null apart, and of texts each only
//! once.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use crate::column::Text;

/// Texts that are looked for by their place in memory before their letters are read.
const NEAR: usize = 8;

#[derive(Debug, Default)]
pub struct Values {
    /// 1 for a value and 0 for null, one for each row; empty for a column that has no null.
    pub levels: Vec<u8>,
    pub nulls: usize,
    pub integers: Vec<i64>,
    pub reals: Vec<f64>,
    pub texts: Texts,
}

impl Values {
    pub fn integer(&mut self, value: i64) {
        self.integers.push(value);
    }

    pub fn real(&mut self, value: f64) {
        self.reals.push(value);
    }

    /// Of a column that may be null, for each row; returns whether there is a value to come.
    pub fn is_there(&mut self, is: bool) -> bool {
        self.levels.push(is.into());
        self.nulls += usize::from(!is);
        is
    }

    /// Values that are not null.
    pub fn present(&self) -> usize {
        self.integers.len() + self.reals.len() + self.texts.places.len()
    }

    pub fn rows(&self) -> usize {
        self.present() + self.nulls
    }

    pub fn clear(&mut self) {
        self.levels.clear();
        self.nulls = 0;
        self.integers.clear();
        self.reals.clear();
        self.texts.clear();
    }
}

#[derive(Debug, Default)]
pub struct Texts {
    distinct: Vec<Shared>,
    known: HashMap<Shared, u32>,
    /// Of each value in the list of distinct ones.
    places: Vec<u32>,
}

#[derive(Clone, Debug)]
enum Shared {
    Name(&'static str),
    Text(Text),
}

impl Borrow<str> for Shared {
    fn borrow(&self) -> &str {
        match self {
            Shared::Name(name) => name,
            Shared::Text(text) => text,
        }
    }
}

impl PartialEq for Shared {
    fn eq(&self, other: &Shared) -> bool {
        Borrow::<str>::borrow(self) == Borrow::<str>::borrow(other)
    }
}

impl Eq for Shared {}

impl Hash for Shared {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        Borrow::<str>::borrow(self).hash(hasher);
    }
}

impl Texts {
    pub fn name(&mut self, name: &'static str) {
        let place = self.near(name).unwrap_or_else(|| self.place(name, || Shared::Name(name)));
        self.places.push(place);
    }

    pub fn text(&mut self, text: &Text) {
        let kept = || Shared::Text(text.clone());
        let place = self.near(text).unwrap_or_else(|| self.place(text, kept));
        self.places.push(place);
    }

    /// Rows share their texts, and neighbours often have the same one. What is in the list is kept
    /// alive by it, so that another text cannot lie in its place.
    fn near(&self, text: &str) -> Option<u32> {
        let is = |known: &Shared| std::ptr::eq(Borrow::<str>::borrow(known), text);
        if let Some(&last) = self.places.last()
            && is(&self.distinct[last as usize])
        {
            return Some(last);
        }
        self.distinct.iter().take(NEAR).position(is).map(|place| place as u32)
    }

    fn place(&mut self, text: &str, kept: impl FnOnce() -> Shared) -> u32 {
        if let Some(&place) = self.known.get(text) {
            return place;
        }
        let (place, kept) = (self.distinct.len() as u32, kept());
        self.distinct.push(kept.clone());
        self.known.insert(kept, place);
        place
    }

    pub fn distinct(&self) -> impl ExactSizeIterator<Item = &str> {
        self.distinct.iter().map(Borrow::borrow)
    }

    pub fn places(&self) -> &[u32] {
        &self.places
    }

    fn clear(&mut self) {
        self.distinct.clear();
        self.known.clear();
        self.places.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_one_place_wherever_they_lie() {
        let mut texts = Texts::default();
        let (one, again): (Text, Text) = ("curl".into(), "curl".into());
        texts.text(&one);
        texts.text(&again);
        texts.name("curl");
        texts.text(&"wget".into());
        texts.text(&one);
        assert_eq!(texts.places(), [0, 0, 0, 1, 0]);
        assert_eq!(texts.distinct().collect::<Vec<_>>(), ["curl", "wget"]);
    }

    #[test]
    fn a_text_that_came_where_another_was_is_not_taken_for_it() {
        let mut texts = Texts::default();
        for number in 0..10_000 {
            // Freed and allocated again: mostly in the same place.
            texts.text(&format!("{number:05}").into());
        }
        assert_eq!(texts.distinct().len(), 10_000);
    }
}
