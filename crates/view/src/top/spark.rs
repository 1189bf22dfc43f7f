//! A curve in one line of text.

use super::connection::Connection;
use super::history::SLOT_NS;
use super::theme::Theme;

/// One character a second.
const SLOTS_PER_STEP: u32 = (1_000_000_000 / SLOT_NS) as u32;

/// The highest congestion window of each of the last `width` seconds, scaled to the highest of
/// them. A second without an event shows the window that held.
pub fn cwnd(c: &Connection, now_ns: u64, width: usize, theme: Theme) -> String {
    // Steps begin at whole seconds, so that the curve moves without changing its shape.
    let step = (now_ns / (SLOT_NS * u64::from(SLOTS_PER_STEP))) as u32;
    let first = (step + 1).saturating_sub(width as u32);
    let mut held = c.history.cwnd_before(first.saturating_mul(SLOTS_PER_STEP));
    let mut values = Vec::with_capacity(width);
    for second in first..=step {
        let from = second.saturating_mul(SLOTS_PER_STEP);
        let slots = c.history.between(from, from.saturating_add(SLOTS_PER_STEP - 1));
        let highest = slots.clone().map(|slot| slot.cwnd_max).max().filter(|&max| max > 0);
        values.push(highest.or(held));
        held = slots.map(|slot| slot.cwnd_last).filter(|&last| last > 0).last().or(held);
    }
    let top = values.iter().flatten().copied().max().unwrap_or(1).max(1);
    values
        .into_iter()
        .map(|value| value.map_or(' ', |v| theme.bar(f64::from(v) / f64::from(top))))
        .collect()
}
