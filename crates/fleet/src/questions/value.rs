//! Values of parameters, as literals that all engines read alike.

use anyhow::{Context, Result, ensure};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    Text,
    /// Separated by commas.
    Texts,
    /// An address of a customer, or the prefix that rows have of it.
    Customer,
    Integer,
    /// Separated by commas.
    Integers,
    Real,
    /// The name of a column; `connections` stands for 1, which counts rows when it is added up.
    Column,
    /// As RFC 3339, in µs since 1970 in the statement.
    Time,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Texts(Vec<String>),
    Integers(Vec<i64>),
    Real(f64),
    Column(String),
}

impl ParameterKind {
    pub fn named(name: &str) -> Option<ParameterKind> {
        Some(match name {
            "text" => ParameterKind::Text,
            "texts" => ParameterKind::Texts,
            "customer" => ParameterKind::Customer,
            "integer" => ParameterKind::Integer,
            "integers" => ParameterKind::Integers,
            "real" => ParameterKind::Real,
            "column" => ParameterKind::Column,
            "time" => ParameterKind::Time,
            _ => return None,
        })
    }

    /// # Errors
    /// The text is none of this kind, or one that engines would read differently.
    pub fn value(self, text: &str) -> Result<Value> {
        Ok(match self {
            ParameterKind::Text => Value::Texts(vec![plain(text)?]),
            ParameterKind::Texts => {
                let texts: Result<Vec<String>> = text.split(',').map(plain).collect();
                Value::Texts(texts?)
            }
            ParameterKind::Customer => Value::Texts(vec![customer(text)?]),
            ParameterKind::Integer => Value::Integers(vec![integer(text)?]),
            ParameterKind::Integers => {
                let numbers: Result<Vec<i64>> = text.split(',').map(integer).collect();
                Value::Integers(numbers?)
            }
            ParameterKind::Real => {
                let number: f64 = text.parse().with_context(|| format!("'{text}' is no number"))?;
                ensure!(number.is_finite(), "'{text}' is no finite number");
                Value::Real(number)
            }
            ParameterKind::Column => {
                let is_part = |c: char| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit();
                let is_name = text.starts_with(|c: char| c.is_ascii_lowercase());
                ensure!(is_name && text.chars().all(is_part), "'{text}' is no column's name");
                Value::Column(text.to_owned())
            }
            ParameterKind::Time => {
                let time = chrono::DateTime::parse_from_rfc3339(text)
                    .with_context(|| format!("'{text}' is no time as 2026-11-23T14:03:00Z"))?;
                Value::Integers(vec![time.timestamp_micros()])
            }
        })
    }
}

impl Value {
    pub fn literal(&self) -> String {
        match self {
            Value::Texts(texts) => {
                let quoted = texts.iter().map(|text| format!("'{}'", text.replace('\'', "''")));
                quoted.collect::<Vec<_>>().join(", ")
            }
            Value::Integers(numbers) => {
                numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
            }
            // With an exponent it is a double everywhere, not a decimal.
            Value::Real(number) => format!("{number:e}"),
            Value::Column(name) if name == "connections" => "1".to_owned(),
            Value::Column(name) => name.clone(),
        }
    }
}

/// The prefix that rows have: a /24, or a /48.
///
/// # Errors
/// It is no address, or another prefix: no row would have it.
pub fn customer(text: &str) -> Result<String> {
    let (begin, bits) = text.split_once('/').unzip();
    let address = transom_spool::address(begin.unwrap_or(text))
        .ok()
        .with_context(|| format!("'{text}' is no address, as 198.51.100.7 or 2001:db8:7::/48"))?;
    let prefix = transom_spool::prefix(address);
    let kept = prefix.rsplit('/').next();
    ensure!(
        bits.is_none() || bits == kept,
        "'{text}': rows have the peer's /{}: give one of those, or an address",
        kept.unwrap_or_default()
    );
    Ok(prefix)
}

fn integer(text: &str) -> Result<i64> {
    text.parse().with_context(|| format!("'{text}' is no integer"))
}

/// A backslash is itself in one engine and begins an escape in the others.
fn plain(text: &str) -> Result<String> {
    ensure!(!text.contains('\\'), "'{text}' has a backslash, which engines read differently");
    ensure!(!text.chars().any(char::is_control), "{text:?} has a control character");
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_stays_inside_its_text() {
        let value = ParameterKind::Text.value("o'clock").unwrap();
        assert_eq!(value.literal(), "'o''clock'");
        assert_eq!(ParameterKind::Texts.value("a,b").unwrap().literal(), "'a', 'b'");
    }

    #[test]
    fn a_customer_is_found_by_its_address_or_the_prefix_of_its_rows() {
        let of = |text: &str| ParameterKind::Customer.value(text).map(|value| value.literal());
        for same in ["198.51.100.7", "198.51.100.0/24", "198.51.100.7/24", "::ffff:198.51.100.7"] {
            assert_eq!(of(same).unwrap(), "'198.51.100.0/24'", "{same}");
        }
        assert_eq!(of("2001:DB8:7:1::9").unwrap(), "'2001:db8:7::/48'");
        assert!(
            of("198.51.100.0/25").unwrap_err().to_string().contains("rows have the peer's /24")
        );
        assert!(of("198.51.100.0/24' OR 1=1 --").is_err() && of("customer-7").is_err());
    }

    #[test]
    fn numbers_and_times_are_what_they_say() {
        assert_eq!(ParameterKind::Real.value("1.96").unwrap().literal(), "1.96e0");
        let time = ParameterKind::Time.value("2026-11-23T12:00:00Z").unwrap();
        assert_eq!(time, Value::Integers(vec![1_795_435_200_000_000]));
        assert_eq!(ParameterKind::Integers.value("7,-8").unwrap().literal(), "7, -8");
        let column = |text| ParameterKind::Column.value(text).unwrap().literal();
        assert_eq!([column("srtt_us"), column("connections")], ["srtt_us", "1"]);
        for (kind, text) in [
            (ParameterKind::Integer, "1; DROP"),
            (ParameterKind::Integers, "1,2) OR (1"),
            (ParameterKind::Integers, ""),
            (ParameterKind::Real, "nan"),
            (ParameterKind::Time, "noon"),
            (ParameterKind::Text, "a\\b"),
            (ParameterKind::Column, "1; DROP"),
            (ParameterKind::Column, ""),
        ] {
            assert!(kind.value(text).is_err(), "{text}");
        }
    }
}
