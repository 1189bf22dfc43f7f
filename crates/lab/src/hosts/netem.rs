//! Hosts without air, joined by the kernel's own emulator: a namespace with two bridges, one for
//! each side of the path, and between them a link whose ends delay, lose and shape (`sch_netem`).
//! Its losses do not follow the run's seed: kernels before 6.6 give netem none.
//!
//! ```text
//! near hosts ══ bridge near ── path-up ~~~ path-down ── bridge far ══ far hosts
//! ```
//!
//! No device is named `up` or `down`, which `ip` takes for its own words.

use anyhow::{Result, bail};
use transom_emulator::plan::Direction;

use super::place::{Place, Side};
use super::{batch, namespace};
use crate::experiment::Experiment;

/// Packets that netem holds where nothing limits them.
const UNLIMITED: u32 = 100_000;
/// A full packet from the IP header on, bits.
const PACKET_BITS: f64 = 1500.0 * 8.0;
/// A rate is of bytes from the IP header on, and netem counts the Ethernet header, too.
const LINK_HEADER: u32 = 14;

/// Name of the namespace between the hosts; no host's name can hold a dot.
pub fn between(lab: &str) -> String {
    format!("tx-{lab}-path.netem")
}

/// # Errors
/// If the experiment asks for what netem cannot do, or the kernel has no netem.
pub fn check(experiment: &Experiment) -> Result<()> {
    if experiment.air.is_some() {
        bail!("netem emulates no air, and the experiment has [air]: use --backend emulator");
    }
    if let Some((name, _)) = experiment.hosts.iter().find(|(_, host)| host.cellular.is_some()) {
        bail!("netem lays one path, and '{name}' has a second (cellular): use --backend emulator");
    }
    if let Some((name, _)) = experiment.hosts.iter().find(|(_, host)| host.link.is_some()) {
        bail!("netem lays one path, and '{name}' has a link of its own: use --backend emulator");
    }
    for (name, direction) in [("up", &experiment.path.up), ("down", &experiment.path.down)] {
        let varies = direction.rate_mbit.is_none() && direction.can_wait()
            || !direction.delays.is_empty()
            || !direction.handovers.is_empty();
        let more = direction.discipline.is_some()
            || direction.cross.is_some()
            || !direction.stages.is_empty();
        if varies || more {
            bail!(
                "netem has one drop-tail queue and one rate, and path.{name} asks for more: use --backend emulator"
            );
        }
        if direction.police_mbit.is_some() {
            bail!("netem has no policer, and path.{name} has one: use --backend emulator");
        }
        if direction.reorder > 0.0 {
            bail!(
                "netem reorders in another way than path.{name}.reorder means: use --backend emulator"
            );
        }
    }
    probe()
}

/// Tries netem in a namespace of its own, which has no name that could stay.
fn probe() -> Result<()> {
    let try_it = || batch::tc(None, &["qdisc add dev lo root netem delay 1ms".to_owned()]);
    if let Err(error) = namespace::fresh(try_it)? {
        bail!(
            "this kernel has no netem ({error:#}): load it (modprobe sch_netem) or use --backend emulator"
        );
    }
    Ok(())
}

/// Lines of `ip` for the namespace between; the hosts' namespaces are there.
pub fn links(places: &[Place]) -> Vec<String> {
    let mut lines: Vec<String> = [
        "link add near type bridge",
        "link add far type bridge",
        "link add path-up type veth peer name path-down",
        "link set path-up master near",
        "link set path-down master far",
    ]
    .map(str::to_owned)
    .into();
    for (number, place) in places.iter().enumerate() {
        let bridge = if place.side == Side::Far { "far" } else { "near" };
        let (interface, namespace) = (&place.interface, &place.namespace);
        lines.push(format!(
            "link add host{number} type veth peer name {interface} netns {namespace}"
        ));
        lines.push(format!("link set host{number} master {bridge}"));
        lines.push(format!("link set host{number} up"));
    }
    for device in ["near", "far", "path-up", "path-down"] {
        lines.push(format!("link set {device} up"));
    }
    lines
}

/// Lines of `tc` for the link between the bridges.
pub fn queues(experiment: &Experiment) -> Vec<String> {
    let path = &experiment.path;
    [("path-up", &path.up), ("path-down", &path.down)]
        .map(|(device, direction)| {
            format!("qdisc add dev {device} root {}", netem(direction, path.rtt_ms / 2.0))
        })
        .into()
}

fn netem(direction: &Direction, more_ms: f64) -> String {
    let delay_ms = direction.delay_ms + more_ms;
    let mut words = vec![format!("netem limit {}", limit(direction, delay_ms))];
    if delay_ms > 0.0 {
        words.push(format!("delay {delay_ms}ms"));
    }
    match direction.loss_burst {
        _ if direction.loss <= 0.0 => {}
        Some(burst) => {
            let (enter, leave) = gilbert(direction.loss, burst);
            words.push(format!("loss gemodel {}% {}%", enter * 100.0, leave * 100.0));
        }
        None => words.push(format!("loss random {}%", direction.loss * 100.0)),
    }
    if direction.duplicate > 0.0 {
        words.push(format!("duplicate {}%", direction.duplicate * 100.0));
    }
    if let Some(rate) = direction.rate_mbit {
        words.push(format!("rate {:.0}bit -{LINK_HEADER}", rate * 1e6));
    }
    words.join(" ")
}

/// Chances to enter and to leave the state in which all is lost, of Gilbert's model.
fn gilbert(loss: f64, burst: f64) -> (f64, f64) {
    let leave = 1.0 / burst;
    (loss * leave / (1.0 - loss), leave)
}

/// netem's limit counts the packets on their way, too: those are added to the queue's own.
fn limit(direction: &Direction, delay_ms: f64) -> u32 {
    let bytes = direction.queue_bytes.map(|bytes| (bytes as f64 * 8.0 / PACKET_BITS) as u32);
    let queue = [direction.queue_packets, bytes].into_iter().flatten().min();
    match (queue, direction.rate_mbit) {
        (Some(queue), Some(rate)) => {
            let under_way = (rate * 1e6 * delay_ms * 1e-3 / PACKET_BITS).ceil() as u32;
            queue.saturating_add(under_way).saturating_add(1).min(UNLIMITED)
        }
        _ => UNLIMITED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment(path: &str) -> Experiment {
        let text = format!(
            "title = \"t\"\nsource = \"s\"\nquestion = \"q\"\nduration_s = 1\nrepeats = 1\n{path}\n\
             [hosts.a]\n[hosts.b]\n[flows.f]\nfrom = \"a\"\nto = \"b\"\n"
        );
        toml::from_str(&text).unwrap()
    }

    #[test]
    fn half_of_the_round_trip_lies_in_each_direction() {
        let lines = queues(&experiment("[path]\nrtt_ms = 64\nup = { delay_ms = 3 }"));
        assert_eq!(
            lines,
            [
                "qdisc add dev path-up root netem limit 100000 delay 35ms",
                "qdisc add dev path-down root netem limit 100000 delay 32ms",
            ]
        );
    }

    #[test]
    fn a_queue_is_what_waits_beyond_the_packets_on_their_way() {
        // 20 Mbit/s for 10 ms are 16.5 packets.
        let path = "[path.up]\ndelay_ms = 10\nrate_mbit = 20\nqueue_packets = 50";
        let line = &queues(&experiment(path))[0];
        assert_eq!(
            line,
            "qdisc add dev path-up root netem limit 68 delay 10ms rate 20000000bit -14"
        );
    }

    #[test]
    fn a_queue_that_holds_everything_is_no_short_one() {
        let path = |queue: &str| {
            let way = format!("{{ rate_mbit = 20, delay_ms = 10, {queue} }}");
            format!("[path]\nup = {way}\ndown = {way}")
        };
        for queue in ["queue_packets = 4294967295", "queue_bytes = 1000000000000000"] {
            for line in queues(&experiment(&path(queue))) {
                assert!(line.contains("limit 100000 "), "{queue}: {line}");
            }
        }
    }

    #[test]
    fn losses_in_a_row_are_gilberts_model_with_the_same_share() {
        let (enter, leave) = gilbert(0.02, 4.0);
        assert!((1.0 / leave - 4.0).abs() < 1e-12, "mean length of a burst");
        assert!((enter / (enter + leave) - 0.02).abs() < 1e-12, "share of losses");
        let lines = queues(&experiment("[path.up]\nloss = 0.002"));
        assert!(lines[0].contains("loss random 0.2%"), "{}", lines[0]);
    }

    #[test]
    fn hosts_hang_on_the_bridge_of_their_side() {
        let experiment = experiment("");
        let lines = links(&crate::hosts::places("lab", &experiment).unwrap());
        assert!(lines.contains(&"link add host0 type veth peer name eth0 netns tx-lab-a".into()));
        assert!(lines.contains(&"link set host0 master near".into()), "a only sends: {lines:?}");
        assert!(lines.contains(&"link set host1 master far".into()));
    }

    #[test]
    fn a_second_path_is_refused() {
        let error = check(&experiment("[hosts.c.cellular]")).unwrap_err().to_string();
        assert!(error.contains("'c'") && error.contains("--backend emulator"), "{error}");
    }

    #[test]
    fn what_one_drop_tail_queue_cannot_do_is_refused() {
        let codel = "[path.up]\nrate_mbit = 1\ndiscipline = { kind = \"codel\" }";
        let rates = "[path.up]\nrates = [[0, 1], [1, 2]]";
        for text in [codel, rates, "[path.up]\nstages = [{ delay_ms = 1 }]", "[hosts.c.link]"] {
            let error = check(&experiment(text)).unwrap_err().to_string();
            assert!(error.contains("--backend emulator"), "{error}");
        }
    }

    #[test]
    fn air_is_refused() {
        let error = check(&experiment("[air]")).unwrap_err().to_string();
        assert!(error.contains("--backend emulator"), "{error}");
    }
}
