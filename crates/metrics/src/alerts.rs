//! Alert rules for Prometheus, as their file.

use std::fmt::Write;

pub struct Alert {
    pub name: &'static str,
    pub expr: String,
    /// How long it must hold.
    pub lasting: &'static str,
    pub severity: &'static str,
    pub summary: &'static str,
    pub description: &'static str,
}

/// Single quotes keep everything but themselves.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The file of rules; `head` are its first lines, as comments.
pub fn rules(head: &str, groups: Vec<(&str, Vec<Alert>)>) -> String {
    let mut text = format!("{head}groups:\n");
    for (group, alerts) in groups {
        let _ = writeln!(text, "  - name: transom-{group}\n    rules:");
        for Alert { name, expr, lasting, severity, summary, description } in alerts {
            let [expr, summary, description] = [&expr, summary, description].map(quoted);
            let _ = write!(
                text,
                "      - alert: {name}\n        expr: {expr}\n        for: {lasting}\n        \
                 labels:\n          severity: {severity}\n        annotations:\n          \
                 summary: {summary}\n          description: {description}\n"
            );
        }
    }
    text
}
