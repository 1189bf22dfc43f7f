//! Numbers as people write them: binary bytes, decimal bit rates, short times.

/// Bytes with a binary prefix: `64 KiB`, `1.5 MiB`.
pub fn bytes(n: u64) -> String {
    scaled(n as f64, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"])
}

/// Bits per second with a decimal prefix: `5.1 Mbit/s`.
pub fn rate(bits_per_second: f64) -> String {
    scaled(bits_per_second, 1000.0, &["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"])
}

fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let (mut value, mut unit) = (value.max(0.0), 0);
    while value >= step && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let short = (value * 10.0).round() / 10.0;
    if unit == 0 || value >= 99.5 || short.fract() == 0.0 {
        format!("{value:.0} {}", units[unit])
    } else {
        format!("{value:.1} {}", units[unit])
    }
}

/// A time with the unit that suits it: `250 us`, `102 ms`, `1.50 s`.
pub fn time(ns: u64) -> String {
    match ns {
        0..1_000_000 => format!("{} us", ns / 1000),
        1_000_000..10_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        10_000_000..1_000_000_000 => format!("{:.0} ms", ns as f64 / 1e6),
        1_000_000_000..100_000_000_000 => format!("{:.2} s", ns as f64 / 1e9),
        _ => format!("{:.0} s", ns as f64 / 1e9),
    }
}

/// A share from 0 to 1 as a percentage; small ones keep what matters of them.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        p if p == 0.0 || p >= 1.0 => format!("{p:.0}%"),
        p if p >= 0.1 => format!("{p:.1}%"),
        p if p >= 0.01 => format!("{p:.2}%"),
        _ => "under 0.01%".to_owned(),
    }
}

/// `1 segment`, `2 segments`.
pub fn count(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        assert_eq!(bytes(65_536), "64 KiB");
        assert_eq!(bytes(1_572_864), "1.5 MiB");
        assert_eq!(bytes(17), "17 B");
        assert_eq!(rate(5_140_078.0), "5.1 Mbit/s");
        assert_eq!(rate(940e6), "940 Mbit/s");
        assert_eq!(time(102_000_000), "102 ms");
        assert_eq!(time(1_500_000_000), "1.50 s");
        assert_eq!(percent(0.713), "71%");
        assert_eq!(percent(0.002), "0.2%");
        assert_eq!(percent(0.0), "0%");
        assert_eq!(count(1, "segment", "segments"), "1 segment");
    }
}
