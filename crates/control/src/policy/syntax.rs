//! Values as people write them.

use crate::contract::ONE;

/// µs out of `32ms`, `500us`, `1.5s`.
///
/// # Errors
/// When it is no time, or one longer than an hour.
pub fn microseconds(text: &str) -> Result<u32, String> {
    let text = text.trim();
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let scale = match unit {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "" => return Err(format!("'{text}' has no unit: write us, ms or s, such as 32ms")),
        _ if number.is_empty() => return Err(format!("'{text}' is no time such as 500us or 32ms")),
        _ => return Err(format!("'{unit}' is no unit of time: write us, ms or s")),
    };
    match number.trim().parse::<f64>() {
        Ok(value) if (0.0..=3.6e9).contains(&(value * scale)) => Ok((value * scale) as u32),
        _ => Err(format!("'{text}' is no time such as 500us, 32ms or 1.5s")),
    }
}

/// `32 ms`, for people.
pub fn milliseconds(us: u32) -> String {
    match us % 1000 {
        0 => format!("{} ms", us / 1000),
        _ => format!("{:.1} ms", f64::from(us) / 1000.0),
    }
}

/// 1024ths out of `1/8` or `0.125`.
///
/// # Errors
/// When it is neither, or not from 0 to 1.
pub fn fraction(text: &str) -> Result<u32, String> {
    let wrong = || format!("'{text}' is no share such as 1/8 or 0.125");
    let value = match text.split_once('/') {
        Some((above, below)) => {
            let above: f64 = above.trim().parse().map_err(|_| wrong())?;
            let below: f64 = below.trim().parse().map_err(|_| wrong())?;
            above / below
        }
        None => text.trim().parse().map_err(|_| wrong())?,
    };
    match value {
        v if (0.0..=1.0).contains(&v) => Ok((v * f64::from(ONE)).round() as u32),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(microseconds("32ms"), Ok(32_000));
        assert_eq!(microseconds("1.5s"), Ok(1_500_000));
        assert_eq!(microseconds("250us"), Ok(250));
        for wrong in ["32", "32 parsecs", "-1ms", "9999999s", "ms"] {
            assert!(microseconds(wrong).is_err(), "{wrong}");
        }
        assert!(microseconds("ten").is_err_and(|said| said.starts_with("'ten' is no time")));
    }

    #[test]
    fn shares_are_fractions_or_decimals() {
        assert_eq!(fraction("1/8"), Ok(128));
        assert_eq!(fraction("0.125"), Ok(128));
        assert_eq!(fraction("0"), Ok(0));
        for wrong in ["2", "1/0", "-1/8", "half", "nan"] {
            assert!(fraction(wrong).is_err(), "{wrong}");
        }
    }
}
