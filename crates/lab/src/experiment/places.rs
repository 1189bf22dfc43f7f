//! Where in the file each key stands.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::sysctl;

/// Byte ranges of keys and values by dotted key; elements of arrays by their number.
#[derive(Clone, Debug, Default)]
pub struct Places {
    spans: BTreeMap<String, (Range<usize>, Range<usize>)>,
    line_ends: Vec<usize>,
}

impl Places {
    /// # Errors
    /// If the text is not TOML.
    pub fn of(text: &str) -> Result<Places, toml::de::Error> {
        let line_ends = text.match_indices('\n').map(|(at, _)| at).collect();
        let mut places = Places { spans: BTreeMap::new(), line_ends };
        places.table("", DeTable::parse(text)?.get_ref());
        Ok(places)
    }

    fn table(&mut self, prefix: &str, table: &DeTable<'_>) {
        for (key, value) in table {
            let path = joined(prefix, key.get_ref());
            // Where a sysctl stands, also by its other name.
            for path in [&path, &joined(prefix, &sysctl::canonical(key.get_ref()))] {
                self.spans.insert(path.clone(), (key.span(), value.span()));
            }
            self.value(&path, value);
        }
    }

    fn value(&mut self, path: &str, value: &Spanned<DeValue<'_>>) {
        match value.get_ref() {
            DeValue::Table(table) => self.table(path, table),
            DeValue::Array(array) => {
                for (at, value) in array.iter().enumerate() {
                    let path = joined(path, &at.to_string());
                    self.spans.insert(path.clone(), (value.span(), value.span()));
                    self.value(&path, value);
                }
            }
            _ => {}
        }
    }

    /// 1-based line of a key, or of the nearest key around it that the file has.
    pub fn line(&self, key: &str) -> usize {
        let mut key = key;
        loop {
            if let Some((span, _)) = self.spans.get(key) {
                return self.line_at(span.start);
            }
            match key.rsplit_once('.') {
                Some((outer, _)) => key = outer,
                None => return 1,
            }
        }
    }

    /// 1-based line of a byte.
    pub fn line_at(&self, offset: usize) -> usize {
        self.line_ends.partition_point(|&end| end < offset) + 1
    }

    /// The key that serde speaks of. A table has a place unless it is the whole file, of which it says an
    /// empty one.
    pub fn blamed(&self, error: &toml::de::Error) -> &str {
        let span = error.span().filter(|span| !span.is_empty());
        span.and_then(|span| self.key_at(span.start)).unwrap_or_default()
    }

    /// The innermost key whose name or value holds this byte.
    fn key_at(&self, offset: usize) -> Option<&str> {
        let holds =
            |span: &Range<usize>| span.start <= offset && offset < span.end.max(span.start + 1);
        let around = self.spans.iter().filter(|(_, (key, value))| holds(key) || holds(value));
        around.max_by_key(|(path, _)| path.matches('.').count()).map(|(path, _)| path.as_str())
    }
}

pub fn joined(prefix: &str, key: &str) -> String {
    if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "title = \"x\"\n\n[path]\nrtt_ms = 4\n\n[[claims]]\ntext = \"a\"\n[[claims]]\nof = { metric = \"m\" }\n";

    #[test]
    fn every_key_has_its_line() {
        let places = Places::of(TEXT).unwrap();
        assert_eq!(places.line("title"), 1);
        assert_eq!(places.line("path.rtt_ms"), 4);
        assert_eq!(places.line("claims.1.of.metric"), 9);
    }

    #[test]
    fn a_key_that_is_not_there_stands_where_its_table_does() {
        let places = Places::of(TEXT).unwrap();
        assert_eq!(places.line("path.up.loss"), 3);
        assert_eq!(places.line("nothing"), 1);
    }

    #[test]
    fn a_byte_leads_to_the_innermost_key() {
        let places = Places::of(TEXT).unwrap();
        assert_eq!(places.key_at(TEXT.find("rtt").unwrap()), Some("path.rtt_ms"));
        assert_eq!(places.key_at(TEXT.find("\"m\"").unwrap()), Some("claims.1.of.metric"));
    }
}
