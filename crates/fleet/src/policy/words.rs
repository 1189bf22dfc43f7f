//! How times, shares and changes are written.

use transom_rollout::percent;
use transom_spool::Time;

use crate::ask::time;

/// Seconds, as 90s, 10m, 1h or 2d.
///
/// # Errors
/// It is none.
pub fn span(text: &str) -> Result<u64, String> {
    let us =
        time::ago(text).ok_or_else(|| format!("'{text}' is no time, as 90s, 10m, 1h or 2d"))?;
    u64::try_from(us / 1_000_000).map_err(|error| error.to_string())
}

/// The same, and not 0.
///
/// # Errors
/// It is none, or no pause at all.
pub fn pause(text: &str) -> Result<u64, String> {
    match span(text)? {
        0 => Err(format!("'{text}' is no pause: 1s or more")),
        seconds => Ok(seconds),
    }
}

/// The clock of this machine, seconds since 1970.
pub fn now_s() -> u64 {
    u64::try_from(time::now().0 / 1_000_000).unwrap_or(0)
}

pub fn utc(seconds: u64) -> String {
    time::utc(Time(i64::try_from(seconds).unwrap_or(0).saturating_mul(1_000_000)))
}

/// How long it is: `52 min`.
pub fn long(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        _ if seconds >= 172_800 && seconds.is_multiple_of(86_400) => {
            format!("{} days", seconds / 86_400)
        }
        _ => format!("{:.1} h", seconds as f64 / 3600.0),
    }
}

/// What hosts have: 0 is no generation.
pub fn generation(number: u64) -> String {
    match number {
        0 => "nothing".to_owned(),
        number => format!("generation {number}"),
    }
}

/// With its sign: `+3 %`.
pub fn change(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

/// A change and the ends of its interval: `+3 % (+1 % to +5 %)`.
pub fn interval((low, mean, high): (f64, f64, f64)) -> String {
    format!("{} ({} to {})", change(mean), change(low), change(high))
}

/// How likely something is: `0.87`, or `2.4e-6` where that would be nothing.
pub fn chance(chance: f64) -> String {
    if chance < 0.001 { format!("{chance:.1e}") } else { format!("{chance:.3}") }
}

/// Which part of the fleet a wave is.
pub fn wave(share: f64) -> String {
    if share == 0.0 { "1 host".to_owned() } else { percent(share) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written_with_their_unit() {
        assert_eq!(["90s", "10m", "2h", "1d"].map(span), [Ok(90), Ok(600), Ok(7200), Ok(86_400)]);
        assert!(span("10").unwrap_err().contains("'10' is no time, as 90s"));
        assert_eq!(pause("1s"), Ok(1));
        assert!(pause("0m").unwrap_err().contains("1s or more"));
        assert_eq!([119, 600, 7200].map(long), ["119 s", "10 min", "2.0 h"]);
        assert_eq!([7 * 86_400, 7 * 86_400 + 3600].map(long), ["7 days", "169.0 h"]);
        assert_eq!([1.0, 0.8734, 2.42e-6].map(chance), ["1.000", "0.873", "2.4e-6"]);
        assert_eq!([0.034, -0.5].map(change), ["+3.4 %", "-50.0 %"]);
    }
}
