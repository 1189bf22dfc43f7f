//! What the parser of a file says of a value, for people who know no Rust.

/// `invalid type: string "8", expected f64` as `cannot be the text "8": give a number`; other lines
/// as they are.
pub fn in_plain_words(said: &str) -> String {
    said.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

fn line(said: &str) -> String {
    let parts = ["invalid type: ", "invalid value: "].iter().find_map(|kind| {
        let (before, rest) = said.split_once(kind)?;
        let (found, wanted) = rest.rsplit_once(", expected ")?;
        Some(format!("{before}cannot be {}: give {}", named(found), kind_of(wanted.trim_end())))
    });
    parts.unwrap_or_else(|| said.to_owned())
}

/// What is there.
fn named(found: &str) -> String {
    match found {
        "map" => "a table".to_owned(),
        "sequence" => "a list".to_owned(),
        _ => match found.strip_prefix("string ") {
            Some(text) => format!("the text {text}"),
            // `integer `-1``, `boolean `true``, …
            None => found.split('`').nth(1).unwrap_or(found).to_owned(),
        },
    }
}

/// What is wanted.
fn kind_of(wanted: &str) -> String {
    let up_to = |most: u64| format!("a whole number from 0 to {most}");
    match wanted {
        "f32" | "f64" => "a number".to_owned(),
        "u8" => up_to(u8::MAX.into()),
        "u16" => up_to(u16::MAX.into()),
        "u32" => up_to(u32::MAX.into()),
        "u64" | "usize" => "a whole number that is not negative".to_owned(),
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a string" | "a borrowed string" => "text in quotes".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "a table".to_owned(),
        _ if wanted.starts_with("struct ") || wanted.contains(" tagged enum ") => {
            "a table".to_owned()
        }
        _ => wanted.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_values_have_the_names_of_people_who_write_files() {
        for (said, plain) in [
            ("invalid type: string \"8\", expected f64", "cannot be the text \"8\": give a number"),
            (
                "invalid value: integer `-1`, expected u32",
                "cannot be -1: give a whole number from 0 to 4294967295",
            ),
            (
                "invalid type: boolean `true`, expected a string",
                "cannot be true: give text in quotes",
            ),
            ("invalid type: sequence, expected struct Host", "cannot be a list: give a table"),
            ("invalid type: map, expected a sequence", "cannot be a table: give a list"),
            (
                "at 1\n invalid type: floating point `1.5`, expected u64\n",
                "at 1\n cannot be 1.5: give a whole number that is not negative\n",
            ),
            (
                "invalid type: string \"a, expected u8\", expected u8",
                "cannot be the text \"a, expected u8\": give a whole number from 0 to 255",
            ),
            ("missing field `from`", "missing field `from`"),
        ] {
            assert_eq!(in_plain_words(said), plain);
        }
    }
}
