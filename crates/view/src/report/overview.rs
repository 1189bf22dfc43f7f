//! All connections together, before any of them alone.

use std::fmt::Write;

use serde_json::{Value, json};
use transom_analysis::{
    Analysis, Cause, Limit, Recording, Series, Throughput, automatic_bin, shares,
};
use transom_event::{Kind, fields};

use super::Trace;
use super::header::{escape, grouped, plural};
use super::rows::{self, Key};

const BINS: u64 = 300;
/// Causes that get a line of their own.
const CAUSES: usize = 5;
/// Connections listed as conspicuous, and how many for one reason.
const CONSPICUOUS: usize = 6;
const FOR_ONE_REASON: usize = 2;
/// From this part of its segments on, retransmissions make a connection conspicuous; so do waits
/// of this part of its time, and this many times its minimum RTT.
const RETRANSMITTED: f64 = 0.001;
const STALLED: f64 = 0.02;
const RTT_GROWTH: f64 = 2.0;

/// The section as HTML; empty where there are no several connections.
pub fn section(traces: &[Trace]) -> String {
    let count: usize = traces.iter().map(|trace| trace.analyses.len()).sum();
    if count < 2 {
        return String::new();
    }
    let mut html = String::from(
        "<section id=\"overview\" aria-labelledby=\"overview-title\">\n\
         <h2 id=\"overview-title\">All connections</h2>\n<div id=\"total\"></div>\n",
    );
    for (at, trace) in traces.iter().enumerate() {
        let name = if traces.len() > 1 { format!(" {}", Key::letter(at)) } else { String::new() };
        let _ = write!(
            html,
            "<div><h3>Verdicts{name}, share of the bytes</h3>\n{}</div>\n",
            verdicts(trace)
        );
    }
    let conspicuous = conspicuous(traces);
    if !conspicuous.is_empty() {
        let _ = write!(html, "<div><h3>Look at these first</h3>\n<ol>{conspicuous}</ol></div>\n");
    }
    html + "</section>\n"
}

/// The verdict's cause as the section names it.
pub fn cause_name(cause: Cause) -> String {
    cause.name().replace('_', " ")
}

fn verdicts(trace: &Trace) -> String {
    let all: Vec<&Analysis> = trace.analyses.iter().collect();
    let bytes: u64 = all.iter().map(|analysis| analysis.bytes()).sum();
    let mut html = String::from("<ul class=\"bars\">");
    let shares = shares(&all);
    for share in shares.iter().take(CAUSES) {
        let part = share.bytes as f64 / bytes.max(1) as f64;
        let _ = writeln!(
            html,
            "<li><span class=\"share\" style=\"width:{:.1}em\"></span>{} <i>{:.0} %, {}</i></li>",
            part * 6.0,
            escape(&cause_name(share.cause)),
            part * 100.0,
            plural(share.connections as u64, "connection"),
        );
    }
    if shares.len() > CAUSES {
        let _ = writeln!(html, "<li><i>and {} more</i></li>", shares.len() - CAUSES);
    }
    html + "</ul>"
}

/// The worst connections and why, as list items with links.
fn conspicuous(traces: &[Trace]) -> String {
    type Badness = fn(&Analysis) -> f64;
    type Reason = fn(&Analysis) -> String;
    let kinds: [(Badness, Reason); 3] = [
        (lost, |a| {
            let again = a.summary.retransmitted.total();
            let share = a.summary.loss_share() * 100.0;
            format!("{share:.1} % retransmitted ({})", grouped(again))
        }),
        (stalled, |a| {
            let waited = a.limits.time_ns(Limit::Repair) as f64 / 1e9;
            format!("waited {waited:.2} s for repair")
        }),
        (grown, |a| format!("RTT {:.0} × its minimum", grown(a) * RTT_GROWTH)),
    ];
    let mut listed: Vec<Conspicuous> = Vec::new();
    for (badness, reason) in kinds {
        let all = traces
            .iter()
            .enumerate()
            .flat_map(|(at, trace)| trace.analyses.iter().map(move |analysis| (at, analysis)));
        let mut worst: Vec<(usize, &Analysis)> = all.filter(|(_, a)| badness(a) > 0.0).collect();
        worst.sort_by(|(_, a), (_, b)| badness(b).total_cmp(&badness(a)));
        let mut chosen = 0;
        for (at, analysis) in worst {
            let key = Key { trace: at, traces: traces.len() }.of(analysis.cookie);
            if chosen == FOR_ONE_REASON || listed.len() == CONSPICUOUS {
                break;
            }
            if listed.iter().any(|other| other.key == key) {
                continue;
            }
            chosen += 1;
            let remote = match &analysis.remote_name {
                remote if remote.is_empty() => format!("cookie {}", analysis.cookie),
                remote => remote.clone(),
            };
            listed.push(Conspicuous {
                key,
                name: format!("{} {remote}", analysis.program),
                port: analysis.ends.map(|ends| ends.local.port()),
                whole: rows::ends(analysis),
                reason: reason(analysis),
            });
        }
    }
    listed.iter().map(|one| one.item(&listed)).collect()
}

/// A connection to look at first.
struct Conspicuous {
    key: String,
    name: String,
    /// Its own.
    port: Option<u16>,
    whole: String,
    reason: String,
}

impl Conspicuous {
    /// As a list item. Where several of the list go to one place, their own ports tell them apart.
    fn item(&self, listed: &[Conspicuous]) -> String {
        let alike = listed.iter().filter(|other| other.name == self.name).count() > 1;
        let port = self.port.filter(|_| alike).map(|port| format!(" from :{port}"));
        let name = escape(&format!("{}{}", self.name, port.unwrap_or_default()));
        let (key, whole, reason) = (&self.key, escape(&self.whole), &self.reason);
        format!("<li title=\"{whole}: {reason}\"><a href=\"#{key}\">{name}</a> {reason}</li>\n")
    }
}

/// Their number, not their share: of a few segments one is many percent, and says nothing.
fn lost(analysis: &Analysis) -> f64 {
    let again = analysis.summary.retransmitted.total();
    if analysis.summary.loss_share() >= RETRANSMITTED { again as f64 } else { 0.0 }
}

fn stalled(analysis: &Analysis) -> f64 {
    let share = analysis.limits.share(Limit::Repair);
    if share >= STALLED { analysis.limits.time_ns(Limit::Repair) as f64 } else { 0.0 }
}

/// Only where much was carried: a few packets say nothing of a queue.
fn grown(analysis: &Analysis) -> f64 {
    let growth = analysis
        .summary
        .rtt
        .map_or(1.0, |rtt| f64::from(rtt.median_us) / f64::from(rtt.min_us.max(1)) / RTT_GROWTH);
    if growth >= 1.0 && analysis.summary.acked >= 1_000_000 { growth } else { 0.0 }
}

/// What the chart of the section draws, one entry a trace.
pub fn chart(trace: &Trace, origin_ns: u64) -> Value {
    let Recording { start_ns, end_ns, from_ns, .. } = trace.recording;
    let start_ns = from_ns.unwrap_or(start_ns);
    let end_ns = end_ns.max(start_ns + 1);
    let bin_ns = automatic_bin(end_ns - start_ns, 0, BINS);
    let series = trace.recording.connections.iter().map(Series::of);
    let total = Throughput::total(series, start_ns, end_ns, bin_ns);
    let bins = total.up.len();
    let times: Vec<f64> = (0..=bins)
        .map(|bin| total.bin_start_ns(bin).saturating_sub(origin_ns) as f64 / 1e9)
        .collect();
    let mut again = vec![0u64; bins];
    for mark in trace.recording.connections.iter().flat_map(|connection| &connection.marks) {
        if mark.kind == Kind::Retransmit {
            again[total.bin_of(mark.time_ns)] += u64::from(fields::retransmit(mark.aux).1).max(1);
        }
    }
    let mbit = |rates: &[f64]| -> Vec<f64> {
        rates.iter().map(|rate| (rate / 1e3).round() / 1e3).collect()
    };
    json!({
        "times": times,
        "up": mbit(&total.up),
        "down": mbit(&total.down),
        "again": again,
        "width": bin_ns as f64 / 1e9,
    })
}
