//! The gates of a generation, and what is expected of them.

use anyhow::{Result, bail, ensure};
use transom_rollout::{Gate, share};
use transom_spool::{Column, Connection, Kind, Row};

/// Where nothing else is asked for.
pub const DEFAULT: &str = "loss = retransmitted / data_segments_sent, higher, 10 %";

/// What a gate is expected to find: `loss=-30%..-10%`.
#[derive(Clone, Debug)]
pub struct Expected {
    pub gate: String,
    pub low: f64,
    pub high: f64,
}

/// # Errors
/// It is no such interval.
pub fn expected(text: &str) -> Result<Expected, String> {
    let wrong = || format!("'{text}' is no GATE=LOW..HIGH, as loss=-30%..-10%");
    let (gate, range) = text.split_once('=').ok_or_else(wrong)?;
    let (low, high) = range.split_once("..").ok_or_else(wrong)?;
    let (low, high) = (share(low)?, share(high)?);
    if low > high {
        return Err(format!("'{text}' ends before it begins: the lower one comes first"));
    }
    Ok(Expected { gate: gate.trim().to_owned(), low, high })
}

/// # Errors
/// A gate asks for what rows do not have, or has the name of another.
pub fn check(gates: &[Gate], expected: &[Expected]) -> Result<()> {
    for (at, gate) in gates.iter().enumerate() {
        for name in [&gate.metric.of, &gate.metric.per] {
            ensure!(
                is_number(name),
                "gate {}: rows of connections have no number '{name}': docs/agent-columns.md names \
                 them, and 'connections' counts them",
                gate.name
            );
        }
        let is_taken = gates[..at].iter().any(|before| before.name == gate.name);
        ensure!(!is_taken, "two gates are named '{}': name one, as 'name = {gate}'", gate.name);
    }
    for it in expected {
        if !gates.iter().any(|gate| gate.name == it.gate) {
            let names: Vec<&str> = gates.iter().map(|gate| gate.name.as_str()).collect();
            bail!("--expected: there is no gate '{}': {}", it.gate, names.join(", "));
        }
    }
    Ok(())
}

fn is_number(name: &str) -> bool {
    let of = |column: &Column<Connection>| {
        column.name == name && matches!(column.kind, Kind::Integer | Kind::Real)
    };
    name == "connections" || Connection::columns().iter().any(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gates(texts: &[&str]) -> Vec<Gate> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn a_gate_asks_for_numbers_that_rows_have() {
        check(&gates(&[DEFAULT, "timeouts / connections, higher, 0.2"]), &[]).unwrap();
        let refused = |texts: &[&str]| check(&gates(texts), &[]).unwrap_err().to_string();
        assert!(refused(&["lost / connections, higher, 0.1"]).contains("no number 'lost'"));
        assert!(refused(&["timeouts / verdict, higher, 0.1"]).contains("no number 'verdict'"));
        assert!(refused(&[DEFAULT, DEFAULT]).contains("two gates are named 'loss'"));
    }

    #[test]
    fn what_is_expected_is_an_interval_of_a_gate() {
        let it = expected("loss = -30 % .. -0.1").unwrap();
        assert_eq!((it.gate.as_str(), it.low, it.high), ("loss", -0.3, -0.1));
        for wrong in ["loss", "loss=0.1", "loss=a..b", "loss=2..1"] {
            assert!(expected(wrong).is_err(), "{wrong}");
        }
        let other = check(&gates(&[DEFAULT]), &[expected("rtt=0..1").unwrap()]);
        assert!(other.unwrap_err().to_string().contains("no gate 'rtt': loss"));
    }
}
