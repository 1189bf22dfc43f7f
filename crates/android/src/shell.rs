//! Words for a shell on the device.

/// One word, whatever is in it.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

pub fn joined(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_shell_gives_back_every_word_as_it_was() {
        let words = ["plain", "", "two words", "it's", "a\nb", "$HOME `id` \\ \"", "ä*?"];
        let words = words.map(str::to_owned);
        let script = format!("printf '%s|' {}", joined(&words));
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        let expected = words.iter().map(|word| format!("{word}|")).collect::<String>();
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    }
}
