//! What an operator calls a machine, beside its name: its cloud, its region, its role.

use anyhow::{Result, ensure};
use transom_spool::Text;

const MOST: usize = 32;

/// `KEY=VALUE`.
///
/// # Errors
/// A question could not find it again.
pub fn label(text: &str) -> Result<(String, String)> {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-.".contains(c);
    ensure!(
        key.starts_with(|c: char| c.is_ascii_lowercase()) && key.chars().all(is_plain),
        "'{key}' is no key: lower-case letters, digits, '_', '-' and '.', as cloud=NAME"
    );
    let is_in_the_way = |c: char| c == ';' || c == '\\' || c.is_control();
    ensure!(
        !value.is_empty() && value.len() <= 255 && !value.contains(is_in_the_way),
        "'{text}' has no value: 1 to 255 bytes without ';' and '\\', as {key}=NAME"
    );
    Ok((key.to_owned(), value.to_owned()))
}

/// As the table has them.
///
/// # Errors
/// A key is there twice, or there are too many.
pub fn joined(mut labels: Vec<(String, String)>) -> Result<Option<Text>> {
    labels.sort();
    for pair in labels.windows(2) {
        ensure!(pair[0].0 != pair[1].0, "two labels are called '{}': leave one out", pair[0].0);
    }
    ensure!(labels.len() <= MOST, "{} labels: {MOST} at most", labels.len());
    let labels: Vec<String> =
        labels.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
    Ok((!labels.is_empty()).then(|| labels.join(";").into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str]) -> Result<Option<Text>> {
        joined(texts.iter().map(|text| label(text)).collect::<Result<_>>()?)
    }

    #[test]
    fn labels_lie_in_the_order_of_their_keys() {
        let joined = of(&["region=eu-central-1", "cloud=a=b"]).unwrap();
        assert_eq!(joined.as_deref(), Some("cloud=a=b;region=eu-central-1"));
        assert_eq!(of(&[]).unwrap(), None);
    }

    #[test]
    fn what_a_question_would_not_find_again_is_refused_by_name() {
        for (text, words) in [
            ("cloud", "'cloud' has no value"),
            ("cloud=", "'cloud=' has no value"),
            ("a=b;c=d", "'a=b;c=d'"),
            ("=x", "'' is no key"),
            ("Cloud=x", "'Cloud' is no key"),
            (".*=x", "'.*' is no key"),
        ] {
            let refusal = of(&[text]).unwrap_err().to_string();
            assert!(refusal.contains(words), "{refusal}");
        }
        assert!(of(&["a=b", "a=c"]).unwrap_err().to_string().contains("called 'a'"));
    }
}
