//! Numbers and names in few characters.

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

/// At most `width` characters; the end gives way.
pub fn fit(text: &str, width: usize, ascii: bool) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    text.chars().take(kept).chain(ellipsis(ascii).chars().take(width)).collect()
}

/// At most `width` characters of an address; the middle gives way, as the port tells the most.
pub fn fit_address(text: &str, width: usize, ascii: bool) -> String {
    let length = text.chars().count();
    if length <= width || width < 8 {
        return fit(text, width, ascii);
    }
    let tail = (width - 1) * 2 / 3;
    let head = width - 1 - tail;
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(length - tail).collect();
    format!("{start}{}{end}", ellipsis(ascii))
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
    fn thousands() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
