//! Whether the numbers and names of an experiment can be run.

mod claims;
mod stacks;

use std::collections::BTreeMap;

use toml::Value;
use transom_control::Policy;
use transom_emulator::plan::{self, Direction, Path, Station};

use super::problem::{Problem, instead};
use super::{Experiment, Figure, FigureKind, Flow, Host, Pick, Protocol, Published};
use crate::metrics::{FLOW_METRICS, RUN_METRICS, WITHOUT_TRACE};
use crate::sweep::{canonical, same};

/// PHY rates of 802.11g, ERP-OFDM (IEEE 802.11-2020, table 17-4).
pub const PHY_RATES: [u32; 8] = [6, 9, 12, 18, 24, 36, 48, 54];

/// Quantities that a figure over time can draw.
pub const QUANTITIES: [&str; 2] = ["cwnd", "throughput"];

/// A host's name is part of the names of its namespace and interface (15 characters in all).
const LONGEST_NAME: usize = 12;

/// Packets of a queue above this are taken for a mistake; in bytes, a device's still fit 32 bits.
const MOST_PACKETS: u32 = 1_000_000;

/// Everything wrong with one experiment, its sweep aside.
pub fn check(experiment: &Experiment) -> Vec<Problem> {
    let mut found = Found::default();
    found.whole(experiment);
    found.path("path", &experiment.path);
    found.air(experiment);
    for (name, host) in &experiment.hosts {
        found.host(name, host);
        found.stack(name, host);
    }
    for (name, flow) in &experiment.flows {
        found.flow(experiment, name, flow);
        found.ends(experiment, name, flow);
    }
    for (n, key) in experiment.paired.iter().enumerate() {
        found.along(experiment, &format!("paired.{n}"), key);
    }
    for (n, place) in experiment.skip.iter().enumerate() {
        found.place(experiment, &format!("skip.{n}"), place);
    }
    for (n, published) in experiment.published.iter().enumerate() {
        found.published(experiment, &format!("published.{n}"), published);
    }
    for (n, figure) in experiment.figures.iter().enumerate() {
        found.figure(experiment, &format!("figures.{n}"), figure);
    }
    for (n, claim) in experiment.claims.iter().enumerate() {
        found.claim(experiment, &format!("claims.{n}"), claim);
    }
    found.controls(experiment);
    found.0
}

#[derive(Default)]
pub(super) struct Found(Vec<Problem>);

impl Found {
    pub(super) fn add(
        &mut self,
        key: impl Into<String>,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.0.push(Problem::new(key, what, remedy));
    }

    /// `value` must lie in `from..=to`.
    pub(super) fn within(&mut self, key: String, value: f64, (from, to): (f64, f64), unit: &str) {
        if !(from..=to).contains(&value) {
            let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
            let remedy = format!("give a number from {from} to {to}{unit}");
            self.add(key, format!("{value} is impossible"), remedy);
        }
    }

    /// Half of an interval ÷ its number.
    pub(super) fn precision(&mut self, key: String, share: Option<f64>) {
        if let Some(share) = share {
            self.within(key, share, (0.0001, 1.0), "");
        }
    }

    fn at_least_one(&mut self, key: String, value: Option<u64>, what: &str) {
        if value == Some(0) {
            self.add(key, format!("0 {what} is impossible"), "give at least 1");
        }
    }

    /// Of a queue. Devices and links hold far fewer packets than the most.
    fn packets(&mut self, key: String, value: Option<u32>) {
        self.at_least_one(key.clone(), value.map(u64::from), "packets");
        if let Some(value) = value.filter(|value| *value > MOST_PACKETS) {
            let remedy = format!("give at most {MOST_PACKETS}");
            self.add(key, format!("{value} packets is impossible"), remedy);
        }
    }

    fn rate(&mut self, key: String, value: Option<f64>) {
        if let Some(value) = value {
            self.within(key, value, (0.001, 100_000.0), "Mbit/s");
        }
    }

    fn whole(&mut self, experiment: &Experiment) {
        let Experiment { title, source, question, .. } = experiment;
        for (key, text) in [("title", title), ("source", source), ("question", question)] {
            if text.trim().is_empty() {
                self.add(key, "is empty", "say it in a sentence");
            }
        }
        self.within("duration_s".into(), experiment.duration_s, (0.5, 3600.0), "s");
        self.within("repeats".into(), experiment.repeats.into(), (1.0, 1000.0), "");
        self.precision("precision".into(), experiment.precision);
        self.within("most_repeats".into(), experiment.most_repeats.into(), (2.0, 10_000.0), "");
        if let Some(quick) = &experiment.quick {
            let duration = quick.duration_s.unwrap_or(1.0);
            self.within("quick.duration_s".into(), duration, (0.5, 3600.0), "s");
            self.within(
                "quick.repeats".into(),
                quick.repeats.unwrap_or(1).into(),
                (1.0, 1000.0),
                "",
            );
        }
        if experiment.hosts.len() < 2 {
            self.add("hosts", "fewer than two hosts", "add a [hosts.NAME] table for each end");
        }
        if experiment.flows.is_empty() {
            self.add("flows", "no flow", "add a [flows.NAME] table with `from` and `to`");
        }
    }

    /// What `transom tune apply` would refuse anywhere: which algorithms there are is told by the kernel
    /// that will run it, real or simulated.
    fn policy(&mut self, at: &str, policy: &toml::Table) {
        let checked =
            toml::to_string(policy).map(|text| Policy::parse_for_elsewhere(&text).map(drop));
        for problem in checked.ok().and_then(Result::err).unwrap_or_default() {
            self.add(at, problem.what, problem.remedy);
        }
    }

    fn path(&mut self, at: &str, path: &Path) {
        self.within(format!("{at}.rtt_ms"), path.rtt_ms, (0.0, 60_000.0), "ms");
        self.direction(&format!("{at}.up"), &path.up);
        self.direction(&format!("{at}.down"), &path.down);
    }

    fn direction(&mut self, at: &str, direction: &Direction) {
        self.stage(at, direction);
        for (index, further) in direction.stages.iter().enumerate() {
            self.stage(&format!("{at}.stages.{index}"), further);
        }
    }

    fn of_plan(&mut self, problems: Vec<plan::Problem>) {
        for problem in problems {
            self.add(problem.key, problem.what, problem.remedy);
        }
    }

    fn stage(&mut self, at: &str, direction: &Direction) {
        self.of_plan(direction.problems(at));
        let key = |name: &str| format!("{at}.{name}");
        self.within(key("delay_ms"), direction.delay_ms, (0.0, 60_000.0), "ms");
        self.within(key("reorder_ms"), direction.reorder_ms, (0.0, 60_000.0), "ms");
        self.within(key("loss"), direction.loss, (0.0, 1.0), "");
        self.within(key("duplicate"), direction.duplicate, (0.0, 1.0), "");
        self.within(key("reorder"), direction.reorder, (0.0, 1.0), "");
        self.rate(key("rate_mbit"), direction.rate_mbit);
        self.packets(key("queue_packets"), direction.queue_packets);
        self.at_least_one(key("queue_bytes"), direction.queue_bytes, "bytes");
        if direction.police_mbit.is_some() != direction.police_burst_bytes.is_some() {
            let what = "a policer needs a rate and a burst";
            self.add(key("police_mbit"), what, "set `police_mbit` and `police_burst_bytes`");
        }
        self.rate(key("police_mbit"), direction.police_mbit);
        if direction.police_burst_bytes.is_some_and(|burst| burst < 1500) {
            let what = "the policer's burst holds no whole packet";
            self.add(key("police_burst_bytes"), what, "give at least 1500");
        }
        if let Some(burst) = direction.loss_burst {
            self.within(key("loss_burst"), burst, (1.0, 100_000.0), "packets");
            // Gilbert's chance of a burst to begin, loss / (burst · (1 − loss)), is one at most.
            if direction.loss < 1.0 && direction.loss > burst * (1.0 - direction.loss) {
                let what = format!("bursts of {burst} cannot make up a loss of {}", direction.loss);
                self.add(key("loss_burst"), what, "give longer bursts or less loss");
            }
        }
        if direction.reorder > 0.0 && direction.reorder_ms == 0.0 {
            self.add(key("reorder"), "packets held back by 0 ms stay in order", "set `reorder_ms`");
        }
        let waits = direction.queue_packets.is_some() || direction.queue_bytes.is_some();
        if waits && !direction.can_wait() {
            self.add(key("queue_packets"), "a queue without a rate never fills", "set `rate_mbit`");
        }
    }

    fn air(&mut self, experiment: &Experiment) {
        let station = experiment.hosts.iter().find(|(_, host)| host.station.is_some());
        match (&experiment.air, station) {
            (None, Some((name, _))) => {
                let what = "hangs on the air, but the experiment has none";
                let remedy = "add [air], or choose a profile without a station";
                self.add(format!("hosts.{name}.station"), what, remedy);
            }
            (Some(_), None) => {
                let remedy = "give a host a `station` (or a profile that has one), or remove [air]";
                self.add("air", "no host is on the air", remedy);
            }
            _ => {}
        }
        if let Some(air) = &experiment.air {
            self.packets("air.queue_packets".into(), air.queue_packets);
            let retries = air.retry_limit.map(u64::from);
            self.at_least_one("air.retry_limit".into(), retries, "attempts");
            self.of_plan(air.problems("air"));
            for (name, host) in &experiment.hosts {
                let station = host.station.as_ref();
                let at = format!("hosts.{name}.station");
                self.of_plan(station.map_or(Vec::new(), |station| station.problems(&at, air)));
            }
        }
    }

    fn name(&mut self, key: String, name: &str) {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(fits) {
            let remedy = format!("use a-z, 0-9 and -, at most {LONGEST_NAME}");
            self.add(key, format!("\"{name}\" cannot name a namespace or a file"), remedy);
        }
    }

    fn host(&mut self, name: &str, host: &Host) {
        let key = |part: &str| format!("hosts.{name}.{part}");
        self.name(format!("hosts.{name}"), name);
        if let Some(station) = &host.station {
            self.station(&key("station"), station);
        }
        if let Some(driver) = &host.driver {
            self.rate(key("driver.rate_mbit"), Some(driver.rate_mbit));
            self.rate(key("driver.udp_rate_mbit"), driver.udp_rate_mbit);
            self.packets(key("driver.queue_packets"), Some(driver.queue_packets));
        }
        if let Some(link) = &host.link {
            self.path(&key("link"), link);
            if host.station.is_some() {
                let what = "the link of a station is the air";
                self.add(key("link"), what, "remove it, or the `station`");
            }
        }
        self.algorithm(key("algorithm"), host.algorithm.as_deref());
        let windows =
            [("initial_window", host.initial_window), ("largest_window", host.largest_window)];
        for (part, window) in windows {
            self.at_least_one(key(part), window.map(u64::from), "segments");
        }
        let buffers = [("send_buffer", host.send_buffer), ("receive_buffer", host.receive_buffer)];
        for (part, buffer) in buffers {
            if let Some(bytes) = buffer {
                self.within(key(part), bytes.into(), (4096.0, 2_147_483_647.0), "bytes");
            }
        }
        if let Some(class) = host.class {
            self.within(key("class"), class, (0.1, 100.0), "");
        }
        if host.peer.is_some() && host.policy.is_some() {
            let what = "the connections of a host cannot be tuned by two";
            self.add(key("peer"), what, "keep `peer` or `policy`");
        }
        if host.peer.is_some() && host.station.is_none() {
            let what = "the middleware is for terminals of an access point";
            self.add(key("peer"), what, "give the host a `station`, or remove it");
        }
        if let Some(policy) = &host.policy {
            self.policy(&key("policy"), policy);
        }
        for sysctl in host.sysctl.keys() {
            let part = key(&format!("sysctl.{sysctl}"));
            if sysctl.starts_with("net.") {
                self.add(part, "the leading `net.` is understood", "leave it out");
            } else if sysctl.split(['.', '/']).any(str::is_empty) {
                self.add(part, "no sysctl", "write it as `ipv4.tcp_sack` or `ipv4/tcp_sack`");
            }
        }
    }

    fn station(&mut self, at: &str, station: &Station) {
        if !PHY_RATES.contains(&station.phy_mbit) {
            let what = format!("802.11g has no rate of {} Mbit/s", station.phy_mbit);
            let rates: Vec<String> = PHY_RATES.iter().map(u32::to_string).collect();
            self.add(format!("{at}.phy_mbit"), what, format!("choose of {}", rates.join(", ")));
        }
        self.packets(format!("{at}.queue_packets"), Some(station.queue_packets));
        self.within(format!("{at}.frame_errors_up"), station.frame_errors_up, (0.0, 1.0), "");
        self.within(format!("{at}.frame_errors_down"), station.frame_errors_down, (0.0, 1.0), "");
        if let Some(fading) = station.fading {
            self.within(format!("{at}.fading.every_ms"), fading.every_ms, (0.0, 60_000.0), "ms");
            if !(fading.lasts_ms > 0.0 && fading.lasts_ms < fading.every_ms) {
                let what = format!("fades of {} ms each {} ms", fading.lasts_ms, fading.every_ms);
                self.add(format!("{at}.fading.lasts_ms"), what, "above 0 and below `every_ms`");
            }
            self.within(format!("{at}.fading.errors_up"), fading.errors_up, (0.0, 1.0), "");
            self.within(format!("{at}.fading.errors_down"), fading.errors_down, (0.0, 1.0), "");
        }
        if let Some(receive) = station.receive {
            self.rate(format!("{at}.receive.rate_mbit"), Some(receive.rate_mbit));
            self.packets(format!("{at}.receive.queue_packets"), Some(receive.queue_packets));
        }
        self.driver_and_processor(at, station);
    }

    fn driver_and_processor(&mut self, at: &str, station: &Station) {
        if let Some(queue) = station.sending_queue {
            self.rate(format!("{at}.sending_queue.rate_mbit"), queue.rate_mbit);
            self.packets(format!("{at}.sending_queue.packets"), Some(queue.packets));
        }
        let Some(processor) = station.processor else { return };
        for (key, us) in [
            ("send_us", processor.send_us),
            ("transfer_us", processor.transfer_us),
            ("receive_us", processor.receive_us),
        ] {
            self.within(format!("{at}.processor.{key}"), us, (0.0, 1e6), "µs");
        }
        if station.sending_queue.is_none() && processor.send_us + processor.transfer_us > 0.0 {
            let what = "what sending costs the processor, without a driver's queue";
            self.add(format!("{at}.processor"), what, "give the station a `sending_queue`");
        }
        if station.receive.is_some() && processor.receive_us > 0.0 {
            let what = "what receiving costs, said twice";
            self.add(format!("{at}.receive"), what, "keep it or `processor.receive_us`");
        }
    }

    fn algorithm(&mut self, key: String, name: Option<&str>) {
        // TCP_CA_NAME_MAX is 16 with the final zero.
        let fits = |name: &str| {
            (1..16).contains(&name.len())
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
        };
        if let Some(name) = name.filter(|name| !fits(name)) {
            let what = format!("\"{name}\" is no name of a congestion control");
            self.add(key, what, "see net.ipv4.tcp_available_congestion_control");
        }
    }

    fn flow(&mut self, experiment: &Experiment, name: &str, flow: &Flow) {
        let key = |part: &str| format!("flows.{name}.{part}");
        self.name(format!("flows.{name}"), name);
        for (part, host) in [("from", &flow.from), ("to", &flow.to)] {
            if !experiment.hosts.contains_key(host) {
                let known = experiment.hosts.keys().map(String::as_str);
                self.add(key(part), format!("there is no host \"{host}\""), instead(host, known));
            }
        }
        if flow.from == flow.to {
            self.add(key("to"), "a flow from a host to itself", "name another host");
        }
        self.algorithm(key("algorithm"), flow.algorithm.as_deref());
        self.rate(key("rate_mbit"), flow.rate_mbit);
        if flow.protocol == Protocol::Udp {
            if flow.rate_mbit.is_none() {
                let remedy = "set `rate_mbit`: what the program tries to send";
                self.add(key("protocol"), "UDP has no rate of its own", remedy);
            }
            if flow.algorithm.is_some() {
                self.add(key("algorithm"), "UDP has no congestion control", "remove it");
            }
        }
        if let Some(bytes) = flow.buffer {
            self.within(key("buffer"), bytes.into(), (4096.0, 1_073_741_823.0), "bytes");
        }
        self.within(key("start_s"), flow.start_s, (0.0, 3600.0), "s");
        if let Some(duration) = flow.duration_s {
            self.within(key("duration_s"), duration, (0.5, 3600.0), "s");
        }
        let connections = flow.connections.unwrap_or(1);
        self.within(key("connections"), connections.into(), (1.0, 128.0), "");
    }

    fn published(&mut self, experiment: &Experiment, at: &str, published: &Published) {
        self.pick(experiment, &format!("{at}.pick"), &published.pick);
        let wanted = match &published.along {
            Some(along) => {
                self.along(experiment, &format!("{at}.along"), along);
                let values = experiment.sweep.get(along);
                for value in &published.at {
                    self.value(&format!("{at}.at"), along, value, values);
                }
                published.at.len()
            }
            None => 1,
        };
        if published.values.len() != wanted {
            let what = format!("{} values where {wanted} belong", published.values.len());
            self.add(format!("{at}.values"), what, "give one for each of `at`");
        }
    }

    fn figure(&mut self, experiment: &Experiment, at: &str, figure: &Figure) {
        match &figure.kind {
            FigureKind::Sweep { along, curves, .. } => {
                self.along(experiment, &format!("{at}.along"), along);
                self.curves(experiment, at, curves);
            }
            FigureKind::Bars { curves, .. } => self.curves(experiment, at, curves),
            FigureKind::Time { quantity, at: place, greatest, least } => {
                if !experiment.record {
                    let what = "nothing is recorded (`record = false`)";
                    self.add(format!("{at}.quantity"), what, "record, or remove the figure");
                }
                if !QUANTITIES.contains(&quantity.as_str()) {
                    let what = format!("no quantity is called \"{quantity}\"");
                    self.add(format!("{at}.quantity"), what, instead(quantity, QUANTITIES));
                }
                self.place(experiment, &format!("{at}.where"), place);
                for (part, pick) in [("greatest", greatest), ("least", least)] {
                    if let Some(pick) = pick {
                        self.pick(experiment, &format!("{at}.{part}"), pick);
                    }
                }
            }
        }
    }

    fn curves(&mut self, experiment: &Experiment, at: &str, curves: &[super::Curve]) {
        if curves.is_empty() {
            self.add(format!("{at}.curves"), "no curve", "add { name = …, pick = { metric = … } }");
        }
        for (n, curve) in curves.iter().enumerate() {
            self.pick(experiment, &format!("{at}.curves.{n}.pick"), &curve.pick);
        }
    }

    fn pick(&mut self, experiment: &Experiment, at: &str, pick: &Pick) {
        let names =
            |all: &'static [(&'static str, &'static str)]| all.iter().map(|(name, _)| *name);
        let metric = pick.metric.as_str();
        let (of_flow, of_run) = (
            names(FLOW_METRICS).any(|name| name == metric),
            names(RUN_METRICS).any(|name| name == metric),
        );
        let key = format!("{at}.metric");
        match (&pick.flow, of_flow, of_run) {
            (_, false, false) => {
                let known = names(FLOW_METRICS).chain(names(RUN_METRICS));
                let what = format!("no metric is called \"{metric}\"");
                self.add(&*key, what, instead(metric, known));
            }
            (None, true, _) => {
                self.add(&*key, format!("\"{metric}\" is of one flow"), "add `flow`");
            }
            (Some(_), false, true) => {
                self.add(&*key, format!("\"{metric}\" is of the whole run"), "remove `flow`");
            }
            _ => {}
        }
        if of_flow && !experiment.record && !WITHOUT_TRACE.contains(&metric) {
            let what = format!("\"{metric}\" is from a trace, and nothing is recorded");
            let known = WITHOUT_TRACE.join(", ");
            self.add(&*key, what, format!("remove `record = false`, or pick of {known}"));
        }
        if let Some(flow) = &pick.flow
            && !experiment.flows.contains_key(flow)
        {
            let known = experiment.flows.keys().map(String::as_str);
            let what = format!("there is no flow \"{flow}\"");
            self.add(format!("{at}.flow"), what, instead(flow, known));
        }
        self.place(experiment, &format!("{at}.where"), &pick.at);
    }

    pub(super) fn place(
        &mut self,
        experiment: &Experiment,
        at: &str,
        place: &BTreeMap<String, Value>,
    ) {
        for (key, value) in place {
            let at = format!("{at}.{key}");
            self.along(experiment, &at, key);
            self.value(&at, key, value, experiment.sweep.get(key));
        }
    }

    fn along(&mut self, experiment: &Experiment, at: &str, key: &str) {
        if !experiment.sweep.contains_key(key) {
            let known = experiment.sweep.keys().map(String::as_str);
            self.add(at, format!("the sweep has no key \"{key}\""), instead(key, known));
        }
    }

    fn value(&mut self, at: &str, key: &str, value: &Value, values: Option<&Vec<Value>>) {
        let Some(values) = values else { return };
        if !values.iter().any(|one| same(one, value)) {
            let all: Vec<String> = values.iter().map(canonical).collect();
            let what = format!("`{key}` never is {}", canonical(value));
            self.add(at, what, format!("its values: {}", all.join(", ")));
        }
    }
}
