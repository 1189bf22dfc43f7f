//! The section of the page on policies: how far a roll-out is, and its measured effect beside the
//! expected one.

use std::fmt::Write;

use super::page::{count, escaped};
use crate::policy::shown::{Shown, ShownGate, Stage};
use crate::policy::words;

/// An error is why nothing is shown.
pub fn section(policies: &Result<Vec<Shown>, String>) -> String {
    let mut html = String::from("<section><h2>Policies</h2>\n");
    match policies {
        Err(trouble) => html += &format!("<p class=\"notice\">{}</p>", escaped(trouble)),
        Ok(shown) if shown.is_empty() => html += "<p>None has been published.</p>",
        Ok(shown) => html.extend(shown.iter().map(generation)),
    }
    html + "</section>\n"
}

fn generation(shown: &Shown) -> String {
    let (class, state) = match &shown.state {
        Stage::RollingOut => ("", "is rolled out".to_owned()),
        Stage::OnAll => ("", "is on all hosts".to_owned()),
        Stage::Undone(Some(gate)) => (" class=\"harm\"", format!("was undone by its gate {gate}")),
        Stage::Undone(None) => ("", "was taken back by hand".to_owned()),
        Stage::LeaseOver => (" class=\"harm\"", "has no lease any more".to_owned()),
    };
    let mut html = format!(
        "<h3{class}>Generation {} <strong>{}</strong></h3>\n<p class=\"soft told\">{}</p>\n",
        shown.generation,
        escaped(&state),
        escaped(&shown.told)
    );
    if !shown.gates.is_empty() {
        html += "<table class=\"gates\"><thead><tr><th>gate<th>measured<th>expected\
                 <th class=\"number\">with it<th class=\"number\">without<th></thead>\n";
        html.extend(shown.gates.iter().map(gate));
        html += "</table>\n";
    }
    html
}

fn gate(gate: &ShownGate) -> String {
    let hosts = |of: fn((usize, usize)) -> usize| {
        gate.hosts.map_or("-".to_owned(), |hosts| count(of(hosts) as f64))
    };
    let measured = gate.measured.map_or("not yet".to_owned(), words::interval);
    let expected = gate.expected.map_or("-".to_owned(), |(low, high)| {
        format!("{} to {}", words::change(low), words::change(high))
    });
    format!(
        "<tr><th scope=\"row\">{}<td data-is=\"measured\">{measured}<td data-is=\"expected\">{expected}\
         <td class=\"number\" data-is=\"hosts with it\">{}\
         <td class=\"number\" data-is=\"hosts without it\">{}<td>{}\n",
        escaped(&gate.gate),
        hosts(|(with, _)| with),
        hosts(|(_, without)| without),
        intervals(gate),
    )
}

/// Both intervals over one axis, on which twice as much is as far from 0 as half as much.
fn intervals(gate: &ShownGate) -> String {
    let log = |share: f64| share.max(-0.99).ln_1p();
    let measured = gate.measured.map(|(low, mean, high)| [low, mean, high].map(log));
    let expected = gate.expected.map(|(low, high)| [low, high].map(log));
    let ends = measured.iter().flatten().chain(expected.iter().flatten()).copied();
    let (least, most) = ends.fold((-0.05f64, 0.05f64), |(a, b), at| (a.min(at), b.max(at)));
    let x = |at: f64| 3.0 + 94.0 * (at - least) / (most - least);
    let mut svg = String::from(
        "<svg class=\"intervals\" viewBox=\"0 0 100 20\" preserveAspectRatio=\"none\" role=\"img\">\
         <title>measured (line) beside expected (band); the thin line is no change</title>",
    );
    let mut bar = |class: &str, [from, to]: [f64; 2], [top, height]: [f64; 2]| {
        let (x, width) = (x(from), (x(to) - x(from)).max(0.8));
        let _ = write!(
            svg,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{top}\" width=\"{width:.1}\" height=\"{height}\"/>"
        );
    };
    if let Some(ends) = expected {
        bar("nobody", ends, [2.0, 16.0]);
    }
    bar("axis", [0.0, 0.0], [0.0, 20.0]);
    if let Some([low, mean, high]) = measured {
        bar("network", [low, high], [8.0, 4.0]);
        bar("network", [mean, mean], [4.0, 12.0]);
    }
    svg + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(state: Stage) -> Shown {
        Shown {
            generation: 7,
            state,
            told: "in wave 1 of 3 <b>".into(),
            gates: vec![ShownGate {
                gate: "busy = busy_us / bytes_acked, higher, 20 %".into(),
                hosts: Some((1, 23)),
                measured: Some((0.5, 1.0, 1.7)),
                expected: Some((-0.1, 0.0)),
            }],
        }
    }

    #[test]
    fn the_measured_effect_stands_beside_the_expected_one_and_who_undid_it_is_named() {
        let html = section(&Ok(vec![shown(Stage::Undone(Some("busy".into())))]));
        assert!(html.contains("Generation 7 <strong>was undone by its gate busy"), "{html}");
        assert!(html.contains(">+100.0 % (+50.0 % to +170.0 %)<td"), "{html}");
        assert!(html.contains(">-10.0 % to +0.0 %<td") && html.contains(">23<td"), "{html}");
        assert!(html.contains("&lt;b&gt;") && html.contains("class=\"harm\""));
        assert!(!section(&Ok(vec![shown(Stage::OnAll)])).contains("class=\"harm\""));
    }

    #[test]
    fn where_nothing_was_measured_or_published_it_says_so() {
        let mut shown = shown(Stage::RollingOut);
        shown.gates[0].measured = None;
        shown.gates[0].hosts = None;
        assert!(section(&Ok(vec![shown])).contains(">not yet<td"));
        assert!(section(&Ok(vec![])).contains("None has been published"));
        assert!(section(&Err("forged <i>".into())).contains("forged &lt;i&gt;"));
    }
}
