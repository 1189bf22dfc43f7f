//! A gate as somebody writes it: `loss = retransmitted / data_segments_sent, higher, 10 %`.

use std::fmt;
use std::str::FromStr;

use crate::contrast::Metric;
use crate::gate::{Gate, LEAST, Worse};

const FORM: &str = "write [NAME =] COLUMN / COLUMN, higher|lower, TOLERATED[, LEAST], as \
    'loss = retransmitted / data_segments_sent, higher, 10 %'";

impl FromStr for Gate {
    type Err = String;

    fn from_str(text: &str) -> Result<Gate, String> {
        let words: Vec<&str> = text.split(',').map(str::trim).collect();
        let (what, worse, tolerate, least) = match words[..] {
            [what, worse, tolerate] => (what, worse, tolerate, None),
            [what, worse, tolerate, least] => (what, worse, tolerate, Some(least)),
            _ => return Err(format!("'{text}' is no gate: {FORM}")),
        };
        let (name, metric) = match what.split_once('=') {
            Some((name, metric)) => (Some(name.trim()), metric.parse::<Metric>()?),
            None => (None, what.parse()?),
        };
        let name = name.unwrap_or(&metric.of).to_owned();
        if name.is_empty() || name.contains(char::is_control) {
            return Err(format!("'{text}' names its gate with nothing: {FORM}"));
        }
        let worse = match worse {
            "higher" => Worse::Higher,
            "lower" => Worse::Lower,
            _ => return Err(format!("'{worse}' is no direction that is worse: higher or lower")),
        };
        let tolerate = share(tolerate)?;
        if tolerate < 0.0 {
            return Err(format!("'{text}' tolerates less than nothing"));
        }
        let least = least.map_or(Some(LEAST), |least| least.parse().ok());
        let least = least.filter(|least: &f64| *least >= 0.0 && least.is_finite());
        let least = least.ok_or_else(|| format!("'{text}' has no number as its least sum"))?;
        Ok(Gate { name, metric, worse, tolerate, least })
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let worse = if self.worse == Worse::Higher { "higher" } else { "lower" };
        write!(f, "{} = {}, {worse}, {}", self.name, self.metric, percent(self.tolerate))?;
        if self.least == LEAST { Ok(()) } else { write!(f, ", {}", self.least) }
    }
}

/// A share, as `0.1`, `10%` or `10 %`.
///
/// # Errors
/// It is none.
pub fn share(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let (number, of) = match text.strip_suffix('%') {
        Some(number) => (number.trim(), 100.0),
        None => (text, 1.0),
    };
    match number.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number / of),
        _ => Err(format!("'{text}' is no share, as 0.1 or 10 %")),
    }
}

/// As many digits as it needs, four at most: 10 %, 0.5 %.
pub fn percent(share: f64) -> String {
    let text = format!("{:.2}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_is_read_as_it_is_written() {
        let text = "loss = retransmitted / data_segments_sent, higher, 10 %";
        let gate: Gate = text.parse().unwrap();
        assert_eq!((gate.tolerate, gate.worse, gate.least), (0.1, Worse::Higher, LEAST));
        assert_eq!(gate.to_string(), text);
        let short: Gate = "bytes_acked/connections,lower,0.005,30".parse().unwrap();
        assert_eq!(short.to_string(), "bytes_acked = bytes_acked / connections, lower, 0.5 %, 30");
        assert_eq!(short.to_string().parse::<Gate>().unwrap(), short);
    }

    #[test]
    fn the_page_of_roll_outs_tells_the_least_sum_that_counts() {
        let page = include_str!("../../../docs/rollout.md");
        let gates = page.split("## Gates").nth(1).unwrap();
        let told = gates.lines().find(|line| line.contains("`LEAST`")).unwrap();
        assert!(told.contains(&format!("{LEAST} unless")), "{told}");
        let gate: Gate = told.split('`').find_map(|it| it.parse().ok()).expect("a gate with it");
        assert!(gate.least < LEAST, "{gate}");
    }

    #[test]
    fn what_is_no_gate_is_refused_with_the_form() {
        for (wrong, words) in [
            ("retransmitted / sent", "is no gate: write [NAME =]"),
            ("a / b, worse, 0.1", "'worse' is no direction"),
            ("a / b, higher, much", "'much' is no share"),
            ("a / b, higher, nan", "is no share"),
            ("a / b, higher, -0.1", "less than nothing"),
            ("a / b, higher, 0.1, few", "least sum"),
            ("= a / b, higher, 0.1", "with nothing"),
            ("A / b, higher, 0.1", "is no metric"),
        ] {
            let said = wrong.parse::<Gate>().unwrap_err();
            assert!(said.contains(words), "{wrong}: {said}");
        }
    }

    #[test]
    fn shares_are_fractions_or_percent() {
        assert_eq!([share("0.1"), share(" 10 %"), share("-5%")], [Ok(0.1), Ok(0.1), Ok(-0.05)]);
        assert_eq!([0.1, 0.005, 1.0, 0.0].map(percent), ["10 %", "0.5 %", "100 %", "0 %"]);
    }
}
