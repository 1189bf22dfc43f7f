//! `lab list` and `lab show`.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::Result;
use transom_lab::experiment::{Control, Experiment, Flow, Host, Loaded, Over, Path, Stack, leaves};
use transom_lab::page::{self, Results};
use transom_lab::progress::clock;
use transom_lab::run::campaign;
use transom_lab::sweep::{Point, canonical, points};
use transom_lab::{catalogue, hosts, simulated};
use transom_output::say_plain;

use super::run::RESULTS;

#[derive(clap::Args)]
pub struct ShowArgs {
    /// A name of `lab list`, or the path of a file
    name: String,
}

pub fn list() -> Result<ExitCode> {
    let mut out = String::new();
    let mut good = true;
    for (name, found) in catalogue::all() {
        match found.load(&name) {
            Ok(loaded) => {
                let experiment = &loaded.experiment;
                writeln!(out, "{name}\n    {}\n    {}", experiment.title, experiment.source)?;
                writeln!(out, "    {}", cost(&loaded))?;
                virtual_time(&mut out, &loaded)?;
            }
            Err(error) => {
                good = false;
                writeln!(out, "{name}\n    cannot be run: {error:#}")?;
            }
        }
    }
    say_plain(&out)?;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether it can be run in virtual time.
fn virtual_time(out: &mut impl Write, loaded: &Loaded) -> Result<()> {
    let points = points(loaded, false);
    let of_point = |point: &Point| simulated::obstacles(&point.experiment);
    let possible = points.iter().filter(|point| of_point(point).is_empty()).count();
    let why = points.iter().flat_map(of_point).next().unwrap_or_default();
    match possible {
        0 => writeln!(out, "    not --virtual: {why}")?,
        n if n < points.len() => {
            writeln!(out, "    --virtual: {n} of {} points; others not: {why}", points.len())?;
        }
        _ => {}
    }
    Ok(())
}

pub fn show(args: &ShowArgs) -> Result<ExitCode> {
    let loaded = catalogue::find(&args.name)?;
    hosts::accepted::check(&loaded)?;
    let mut out = String::new();
    let Experiment { title, source, question, .. } = &loaded.experiment;
    writeln!(out, "{title}\n{source}\n\n{question}\n")?;
    topology(&mut out, &loaded)?;
    sweep(&mut out, &loaded)?;
    claims(&mut out, &loaded.experiment)?;
    for folder in RESULTS {
        let folder = std::path::Path::new(folder).join(&loaded.name);
        if folder.join("manifest.json").exists()
            && let Ok(results) = Results::read(&folder)
        {
            writeln!(out, "\n{}\n{}", folder.display(), page::table(&results).trim_end())?;
        }
    }
    say_plain(&out)?;
    Ok(ExitCode::SUCCESS)
}

fn claims(out: &mut impl Write, experiment: &Experiment) -> Result<()> {
    if !experiment.claims.is_empty() {
        writeln!(out, "\nclaims")?;
    }
    for claim in &experiment.claims {
        writeln!(out, "  {}", claim.text)?;
        if let Some(why) = &claim.calibrated {
            writeln!(out, "    calibrated, not counted: {why}")?;
        }
        for control in &claim.fails_under {
            writeln!(out, "    must fail under the control \"{control}\"")?;
        }
    }
    if !experiment.controls.is_empty() {
        writeln!(out, "\ncontrols")?;
    }
    for Control { name, set, unset, at, .. } in &experiment.controls {
        let place = at.iter().map(|(key, value)| format!("{key} = {}", canonical(value)));
        let place = place.collect::<Vec<_>>().join(", ");
        let place = if place.is_empty() { place } else { format!(", where {place}") };
        writeln!(out, "  {name}{place}")?;
        for (key, value) in leaves(set) {
            writeln!(out, "    {key} = {value}")?;
        }
        for key in unset {
            writeln!(out, "    {key} is removed")?;
        }
    }
    Ok(())
}

fn topology(out: &mut impl Write, loaded: &Loaded) -> Result<()> {
    let experiment = &loaded.experiment;
    let places = hosts::places(&loaded.name, experiment)?;
    writeln!(out, "hosts")?;
    for place in &places {
        let where_it_is = match place.side {
            hosts::Side::Air => "on the air",
            hosts::Side::Near => "wired, before the path",
            hosts::Side::Far => "wired, behind the path",
        };
        let host = &experiment.hosts[&place.host];
        let details = details(host);
        writeln!(out, "  {:12} {:11} {where_it_is}{details}", place.host, place.v4.to_string())?;
        for line in settings(host) {
            writeln!(out, "  {:12} {line}", "")?;
        }
        if let (Some(second), Some(path)) =
            (&place.cellular, &experiment.hosts[&place.host].cellular)
        {
            let (address, way) = (second.v4.to_string(), way(path));
            writeln!(out, "  {:12} {address:11} {}, raw IP{way}", "", second.interface)?;
        }
    }
    let path = loaded.says("path");
    if !path.is_empty() {
        writeln!(out, "\npath")?;
    }
    for (key, value) in path {
        writeln!(out, "  {key} = {value}")?;
    }
    writeln!(out, "\nflows")?;
    for (name, flow) in &experiment.flows {
        let tool = format!("{:?}", flow.tool).to_lowercase();
        let protocol = format!("{:?}", flow.protocol).to_uppercase();
        let time = flow.duration_s.unwrap_or(experiment.duration_s);
        let mut details = String::new();
        if let Some(algorithm) = &flow.algorithm {
            details += &format!(", {algorithm}");
        }
        if let Some(mbit) = flow.rate_mbit {
            details += &format!(", at {mbit} Mbit/s");
        }
        if let Some(connections) = flow.connections {
            details += &format!(", {connections} connections");
        }
        if let Some(bytes) = flow.write {
            details += &format!(", {bytes} bytes at once");
        }
        if flow.reverse {
            details += &format!(", opened by {}", flow.to);
        }
        if flow.over == Over::Cellular {
            details += ", over the cellular interface";
        }
        if misses_path(flow, &places) {
            details += ", does not meet the path: both hosts are on one side of it";
        }
        writeln!(
            out,
            "  {name:12} {} to {}, {tool}, {protocol}, from {} s for {time} s{details}",
            flow.from, flow.to, flow.start_s
        )?;
    }
    Ok(())
}

/// Between wired hosts on one side there are only their own links.
fn misses_path(flow: &Flow, places: &[hosts::Place]) -> bool {
    let side = |host: &str| places.iter().find(|place| place.host == host).map(|it| it.side);
    let (from, to) = (side(&flow.from), side(&flow.to));
    from == to && from != Some(hosts::Side::Air) && flow.over != Over::Cellular
}

/// What a path of a host's own is like.
fn way(path: &Path) -> String {
    let rate = |name, rate: Option<f64>| rate.map(|rate| format!("; {name} {rate} Mbit/s"));
    let rates = [rate("up", path.up.rate_mbit), rate("down", path.down.rate_mbit)];
    let rates: String = rates.into_iter().flatten().collect();
    format!("; RTT {} ms{rates}", path.rtt_ms + path.up.delay_ms + path.down.delay_ms)
}

fn details(host: &Host) -> String {
    let mut words = Vec::new();
    words.extend(host.profile.clone());
    words.extend(host.station.as_ref().map(|station| match station.mcs {
        Some(mcs) => format!("802.11n MCS {mcs}"),
        None => format!("PHY {} Mbit/s", station.phy_mbit),
    }));
    words.extend(host.driver.as_ref().map(|driver| {
        format!("device {} Mbit/s, {} packets", driver.rate_mbit, driver.queue_packets)
    }));
    words.extend((host.stack == Stack::Library).then(|| "Linux as a library".to_owned()));
    words.extend(host.mptcp.then(|| "MPTCP".to_owned()));
    words.extend(host.algorithm.clone());
    words.extend(host.initial_window.map(|segments| format!("initial window {segments}")));
    words.extend(host.largest_window.map(|segments| format!("largest window {segments}")));
    words.iter().map(|word| format!("; {word}")).collect()
}

/// What is done to the connections of a host: its policy, rules of the middleware, and sysctls.
fn settings(host: &Host) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, table) in [("policy", &host.policy), ("peer", &host.peer)] {
        let leaves = table.iter().flat_map(leaves);
        lines.extend(leaves.map(|(key, value)| format!("{name}.{key} = {value}")));
    }
    lines.extend(host.sysctl.iter().map(|(name, value)| format!("sysctl.{name} = {value}")));
    lines
}

fn sweep(out: &mut impl Write, loaded: &Loaded) -> Result<()> {
    if !loaded.experiment.sweep.is_empty() {
        writeln!(out, "\nsweep")?;
    }
    for (key, values) in &loaded.experiment.sweep {
        let values: Vec<String> = values.iter().map(canonical).collect();
        writeln!(out, "  {key}: {}", values.join(", "))?;
    }
    writeln!(out, "\n{}", cost(loaded))?;
    Ok(())
}

/// What the whole experiment takes, and what its short form does.
fn cost(loaded: &Loaded) -> String {
    let [whole, quick] = [false, true].map(|is_quick| {
        let (runs, seconds) = campaign::cost(loaded, is_quick);
        let noun = if runs == 1 { "run" } else { "runs" };
        format!("{runs} {noun}, {}", clock(seconds))
    });
    format!("{whole}; --quick: {quick}")
}
