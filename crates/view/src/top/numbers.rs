//! Numbers and names in few characters.

use ratatui::text::Span;

/// Three significant digits with an SI suffix: `0`, `950`, `12.3k`, `4.56M`.
pub fn si(value: f64) -> String {
    if !value.is_finite() || value < 0.0 {
        return "-".into();
    }
    let mut value = value;
    for suffix in ["", "k", "M", "G", "T", "P"] {
        // 999.5 would be written as 1000.
        if value < 999.5 {
            let digits = match value {
                _ if suffix.is_empty() => 0,
                v if v < 9.995 => 2,
                v if v < 99.95 => 1,
                _ => 0,
            };
            return format!("{value:.digits$}{suffix}");
        }
        value /= 1000.0;
    }
    format!("{value:.0}E")
}

/// A duration given in µs: `345µs`, `20.1ms`, `1.25s`.
pub fn duration(us: u32, ascii: bool) -> String {
    let value = f64::from(us);
    match us {
        0..1000 if ascii => format!("{us}us"),
        0..1000 => format!("{us}µs"),
        1000..9_995 => format!("{:.2}ms", value / 1e3),
        9_995..99_950 => format!("{:.1}ms", value / 1e3),
        99_950..999_500 => format!("{:.0}ms", value / 1e3),
        999_500..9_995_000 => format!("{:.2}s", value / 1e6),
        _ => format!("{:.0}s", value / 1e6),
    }
}

/// An integer with thousands separated.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Control characters (a program may name itself anything) and, in ASCII mode, all others that
/// the terminal cannot show, as `?`.
pub fn printable(text: &str, ascii: bool) -> String {
    text.chars().map(|c| if c.is_control() || (ascii && !c.is_ascii()) { '?' } else { c }).collect()
}

/// Columns of the screen that a text takes: characters of East Asian scripts take two, marks that
/// are drawn over another none.
pub fn columns(text: &str) -> usize {
    Span::raw(text).width()
}

/// A text at the left or right end of `width` columns.
pub fn aligned(text: &str, width: usize, right: bool) -> String {
    let pad = " ".repeat(width.saturating_sub(columns(text)));
    if right { pad + text } else { text.to_owned() + &pad }
}

/// At most `width` columns; the end gives way.
pub fn fit(text: &str, width: usize, ascii: bool) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    match width.checked_sub(1) {
        Some(kept) => beginning(text, kept).to_owned() + ellipsis(ascii),
        None => String::new(),
    }
}

/// At most `width` columns of an address; the middle gives way, as the port tells the most.
pub fn fit_address(text: &str, width: usize, ascii: bool) -> String {
    if columns(text) <= width || width < 8 {
        return fit(text, width, ascii);
    }
    let tail = (width - 1) * 2 / 3;
    let head = beginning(text, width - 1 - tail);
    format!("{head}{}{}", ellipsis(ascii), end(text, tail))
}

/// As much of the beginning as fits into `width` columns.
fn beginning(text: &str, width: usize) -> &str {
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    let last = ends.take_while(|&end| columns(&text[..end]) <= width).last();
    &text[..last.unwrap_or(0)]
}

/// As much of the end as fits into `width` columns.
fn end(text: &str, width: usize) -> &str {
    let starts = text.char_indices().rev().map(|(at, _)| at);
    let first = starts.take_while(|&start| columns(&text[start..]) <= width).last();
    &text[first.unwrap_or(text.len())..]
}

fn ellipsis(ascii: bool) -> &'static str {
    if ascii { "~" } else { "…" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_suffix() {
        let cases = [
            (0.0, "0"),
            (950.4, "950"),
            (999.7, "1.00k"),
            (12_340.0, "12.3k"),
            (4_560_000.0, "4.56M"),
            (999_600.0, "1.00M"),
            (f64::NAN, "-"),
        ];
        for (value, text) in cases {
            assert_eq!(si(value), text);
        }
    }

    #[test]
    fn durations_fit_six_columns() {
        for us in [0, 1, 999, 1000, 9_994, 9_995, 99_949, 99_950, 999_499, 999_500, u32::MAX] {
            assert!(duration(us, false).chars().count() <= 6, "{us}: {}", duration(us, false));
        }
        assert_eq!(duration(20_100, false), "20.1ms");
    }

    #[test]
    fn an_address_keeps_its_port() {
        let long = "[2001:db8:85a3::8a2e:370:7334]:443";
        let short = fit_address(long, 21, false);
        assert_eq!(short.chars().count(), 21);
        assert!(short.ends_with(":7334]:443"), "{short}");
    }

    #[test]
    fn a_name_of_wide_characters_takes_as_many_columns_as_it_is_given() {
        assert_eq!(aligned("日本語", 8, false), "日本語  ");
        assert_eq!(aligned("日本語", 8, true), "  日本語");
        // The fourth would end in the eighth column, past the sign.
        assert_eq!(fit("日本語日本", 7, false), "日本語…");
        assert_eq!(fit("日本語日本", 6, false), "日本…");
        assert_eq!(fit_address("日本語.example:443", 13, false), "日本…mple:443");
    }

    #[test]
    fn thousands() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
