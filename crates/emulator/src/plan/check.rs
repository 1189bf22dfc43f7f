//! Plans that cannot be emulated are refused before anything is made.

use std::ops::RangeInclusive;

use anyhow::{Result, bail, ensure};

use super::{
    Air, Direction, Fading, Path, Plan, Problem, Processor, Receive, SendingQueue, Side, Station,
};
use crate::phy;

/// A delay or hold above this is taken for a mistake of units.
pub const LONGEST_MS: f64 = 60_000.0;

/// A policer whose burst holds no whole packet lets none pass, bytes.
pub const SMALLEST_BURST: u64 = 1500;

/// Of everything that has one, Mbit/s.
pub const RATES_MBIT: RangeInclusive<f64> = 0.001..=100_000.0;

impl Plan {
    /// Refuses numbers out of their range and hosts that cannot be told apart, by name.
    pub fn check(&self) -> Result<()> {
        path("path", &self.path)?;
        if let Some(air) = &self.air {
            check_air(air)?;
        }
        for (index, port) in self.ports.iter().enumerate() {
            ensure!(
                port.mac[0] & 1 == 0,
                "host {}: a group address (odd first byte) cannot be a host's",
                port.name
            );
            for earlier in &self.ports[..index] {
                ensure!(earlier.name != port.name, "two hosts are named {}", port.name);
                ensure!(
                    earlier.mac != port.mac,
                    "hosts {} and {} have the same MAC address",
                    earlier.name,
                    port.name
                );
            }
            match &port.side {
                Side::Air(attached) => {
                    let Some(air) = &self.air else {
                        bail!(
                            "host {} is a station, but there is no [air]: add it, or attach the \
                             host by wire",
                            port.name
                        );
                    };
                    station(&port.name, attached, air)?;
                }
                Side::Cellular(own) => path(&format!("host {}: path", port.name), own)?,
                Side::Near | Side::Far => {}
            }
        }
        self.check_links()
    }

    fn check_links(&self) -> Result<()> {
        for (name, link) in &self.access_links {
            let port = self.ports.iter().find(|port| port.name == *name);
            match port.map(|port| &port.side) {
                None => bail!("access_links.{name}: there is no host {name}"),
                Some(Side::Near | Side::Far) => path(&format!("host {name}: link"), link)?,
                Some(Side::Air(_)) => bail!(
                    "host {name}: its link is the air; remove the link, or attach the host by wire"
                ),
                Some(Side::Cellular(_)) => bail!(
                    "host {name}: its link is its cellular path; remove the link, or put its \
                     elements into that path's stages"
                ),
            }
        }
        Ok(())
    }
}

fn path(name: &str, path: &Path) -> Result<()> {
    time(&format!("{name}.rtt_ms"), path.rtt_ms)?;
    direction(&format!("{name}.up"), &path.up)?;
    direction(&format!("{name}.down"), &path.down)
}

fn check_air(air: &Air) -> Result<()> {
    ensure!(air.queue_packets != Some(0), "air.queue_packets: at least 1");
    ensure!(air.retry_limit != Some(0), "air.retry_limit: at least 1, the first attempt");
    first(&air.problems("air"))
}

fn first(problems: &[Problem]) -> Result<()> {
    problems.first().map_or(Ok(()), |problem| bail!("{problem}"))
}

fn direction(name: &str, direction: &Direction) -> Result<()> {
    stage(name, direction)?;
    for (index, further) in direction.stages.iter().enumerate() {
        stage(&format!("{name}.stages.{index}"), further)?;
    }
    Ok(())
}

fn stage(name: &str, direction: &Direction) -> Result<()> {
    first(&direction.problems(name))?;
    if let Some(file) = direction.trace.as_ref().and_then(|trace| trace.file.as_ref()) {
        bail!("{name}.trace.file: {file} was not read; give its times as `ms`");
    }
    time(&format!("{name}.delay_ms"), direction.delay_ms)?;
    time(&format!("{name}.reorder_ms"), direction.reorder_ms)?;
    share(&format!("{name}.loss"), direction.loss)?;
    share(&format!("{name}.duplicate"), direction.duplicate)?;
    share(&format!("{name}.reorder"), direction.reorder)?;
    if let Some(mbit) = direction.rate_mbit {
        rate(&format!("{name}.rate_mbit"), mbit)?;
    } else if !direction.can_wait()
        && (direction.queue_packets.is_some() || direction.queue_bytes.is_some())
    {
        bail!("{name}: a queue without rate_mbit never fills; give the rate too");
    }
    match (direction.police_mbit, direction.police_burst_bytes) {
        (Some(mbit), Some(burst)) => {
            rate(&format!("{name}.police_mbit"), mbit)?;
            ensure!(
                burst >= SMALLEST_BURST,
                "{name}.police_burst_bytes = {burst}: at least {SMALLEST_BURST}, one packet"
            );
        }
        (None, None) => {}
        _ => bail!("{name}: a policer needs both police_mbit and police_burst_bytes"),
    }
    if let Some(burst) = direction.loss_burst {
        ensure!(burst >= 1.0 && burst.is_finite(), "{name}.loss_burst = {burst}: at least 1");
        ensure!(
            direction.loss < 1.0 && direction.loss <= burst * (1.0 - direction.loss),
            "{name}: losses of {burst} in a row cannot make up {} of all; longer bursts or less \
             loss",
            direction.loss
        );
    }
    if direction.reorder > 0.0 {
        ensure!(direction.reorder_ms > 0.0, "{name}.reorder needs reorder_ms > 0");
    }
    Ok(())
}

fn station(name: &str, station: &Station, air: &Air) -> Result<()> {
    first(&station.problems(&format!("host {name}: station"), air))?;
    ensure!(
        phy::RATES_MBIT.contains(&station.phy_mbit),
        "host {name}: phy_mbit = {} is no rate of 802.11g, which has {:?}",
        station.phy_mbit,
        phy::RATES_MBIT
    );
    ensure!(station.queue_packets > 0, "host {name}: station.queue_packets is at least 1");
    share(&format!("host {name}: frame_errors_up"), station.frame_errors_up)?;
    share(&format!("host {name}: frame_errors_down"), station.frame_errors_down)?;
    if let Some(fading) = &station.fading {
        check_fading(name, fading)?;
    }
    if let Some(Receive { rate_mbit, .. }) = station.receive {
        rate(&format!("host {name}: receive.rate_mbit"), rate_mbit)?;
    }
    if let Some(SendingQueue { packets, rate_mbit }) = station.sending_queue {
        ensure!(packets > 0, "host {name}: sending_queue.packets is at least 1");
        if let Some(mbit) = rate_mbit {
            rate(&format!("host {name}: sending_queue.rate_mbit"), mbit)?;
        }
    }
    if let Some(processor) = &station.processor {
        check_processor(name, station, processor)?;
    }
    Ok(())
}

fn check_processor(name: &str, station: &Station, processor: &Processor) -> Result<()> {
    let Processor { send_us, transfer_us, receive_us } = *processor;
    for (key, us) in
        [("send_us", send_us), ("transfer_us", transfer_us), ("receive_us", receive_us)]
    {
        time(&format!("host {name}: processor.{key}, in ms,"), us / 1e3)?;
    }
    ensure!(
        station.sending_queue.is_some() || (send_us == 0.0 && transfer_us == 0.0),
        "host {name}: processor.send_us and transfer_us need a sending_queue, which lies between \
         them"
    );
    ensure!(
        station.receive.is_none() || receive_us == 0.0,
        "host {name}: receive and processor.receive_us both say what receiving costs; keep one"
    );
    Ok(())
}

fn check_fading(name: &str, fading: &Fading) -> Result<()> {
    let Fading { every_ms, lasts_ms, errors_up, errors_down } = *fading;
    time(&format!("host {name}: fading.every_ms"), every_ms)?;
    ensure!(
        lasts_ms > 0.0 && lasts_ms < every_ms,
        "host {name}: fading.lasts_ms = {lasts_ms}: above 0 and below every_ms, {every_ms}"
    );
    share(&format!("host {name}: fading.errors_up"), errors_up)?;
    share(&format!("host {name}: fading.errors_down"), errors_down)
}

fn time(name: &str, ms: f64) -> Result<()> {
    ensure!((0.0..=LONGEST_MS).contains(&ms), "{name} = {ms}: between 0 and {LONGEST_MS} ms");
    Ok(())
}

fn share(name: &str, share: f64) -> Result<()> {
    ensure!((0.0..=1.0).contains(&share), "{name} = {share}: between 0 and 1");
    Ok(())
}

fn rate(name: &str, mbit: f64) -> Result<()> {
    let (least, most) = (RATES_MBIT.start(), RATES_MBIT.end());
    ensure!(RATES_MBIT.contains(&mbit), "{name} = {mbit}: between {least} and {most} Mbit/s");
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::plan::{
        Air, Direction, Fading, Path, Plan, Port, Processor, Receive, SendingQueue, Side, Station,
        Trace,
    };

    fn port(number: u8, side: Side) -> Port {
        Port { name: format!("h{number}"), mac: [2, 0, 0, 0, 0, number], side }
    }

    fn refused(plan: &Plan) -> String {
        plan.check().expect_err("it must be refused").to_string()
    }

    fn with_up(up: Direction) -> Plan {
        Plan { path: Path { up, ..Path::default() }, ..Plan::default() }
    }

    fn with_station(station: Station) -> Plan {
        let ports = vec![port(1, Side::Air(station))];
        Plan { air: Some(Air::default()), ports, ..Plan::default() }
    }

    fn faded(every_ms: f64, lasts_ms: f64, errors_up: f64) -> Station {
        let fading = Some(Fading { every_ms, lasts_ms, errors_up, errors_down: 1.0 });
        Station { fading, ..Station::default() }
    }

    #[test]
    fn what_changes_nothing_is_accepted() {
        let mut plan = with_station(Station::default());
        plan.ports.push(port(2, Side::Near));
        plan.ports.push(port(3, Side::Far));
        plan.check().expect("a valid plan");
        Plan::default().check().expect("an empty one too");
    }

    #[test]
    fn numbers_out_of_their_range_are_named_with_it() {
        for (up, says) in [
            (
                Direction { loss: 1.5, ..Direction::default() },
                "path.up.loss = 1.5: between 0 and 1",
            ),
            (Direction { delay_ms: -1.0, ..Direction::default() }, "path.up.delay_ms = -1"),
            (Direction { delay_ms: f64::NAN, ..Direction::default() }, "path.up.delay_ms = NaN"),
            (Direction { rate_mbit: Some(0.0), ..Direction::default() }, "path.up.rate_mbit = 0"),
            (Direction { queue_packets: Some(5), ..Direction::default() }, "give the rate too"),
            (Direction { loss_burst: Some(0.5), ..Direction::default() }, "at least 1"),
            (
                Direction { loss: 0.9, loss_burst: Some(1.0), ..Direction::default() },
                "cannot make up 0.9",
            ),
            (Direction { reorder: 0.1, ..Direction::default() }, "needs reorder_ms"),
            (Direction { police_mbit: Some(1.0), ..Direction::default() }, "needs both"),
            (
                Direction {
                    police_mbit: Some(1.0),
                    police_burst_bytes: Some(100),
                    ..Direction::default()
                },
                "at least 1500",
            ),
        ] {
            let error = refused(&with_up(up));
            assert!(error.contains(says), "{error:?} does not say {says:?}");
        }
    }

    #[test]
    fn a_station_is_named_when_its_numbers_are_wrong() {
        for (station, says) in [
            (Station { phy_mbit: 11, ..Station::default() }, "host h1: phy_mbit = 11 is no rate"),
            (Station { queue_packets: 0, ..Station::default() }, "host h1: station.queue_packets"),
            (Station { frame_errors_up: 2.0, ..Station::default() }, "host h1: frame_errors_up"),
            (
                faded(100.0, 100.0, 1.0),
                "host h1: fading.lasts_ms = 100: above 0 and below every_ms",
            ),
            (faded(100.0, 0.0, 1.0), "host h1: fading.lasts_ms = 0"),
            (faded(f64::NAN, 1.0, 1.0), "host h1: fading.every_ms = NaN"),
            (faded(100.0, 10.0, 1.1), "host h1: fading.errors_up = 1.1: between 0 and 1"),
            (
                Station {
                    receive: Some(Receive { rate_mbit: -1.0, queue_packets: 1 }),
                    ..Station::default()
                },
                "host h1: receive.rate_mbit",
            ),
        ] {
            let error = refused(&with_station(station));
            assert!(error.contains(says), "{error:?} does not say {says:?}");
        }
    }

    #[test]
    fn a_driver_is_named_when_its_numbers_are_wrong() {
        let queue = |packets, rate_mbit| Some(SendingQueue { packets, rate_mbit });
        let processor =
            |send_us, receive_us| Some(Processor { send_us, transfer_us: 0.0, receive_us });
        let receive = Some(Receive { rate_mbit: 1.0, queue_packets: 1 });
        let none = Station::default;
        for (station, says) in [
            (
                Station { sending_queue: queue(0, None), ..none() },
                "h1: sending_queue.packets is at least 1",
            ),
            (
                Station { sending_queue: queue(1, Some(0.0)), ..none() },
                "h1: sending_queue.rate_mbit = 0",
            ),
            (
                Station {
                    sending_queue: queue(1, None),
                    processor: processor(-1.0, 0.0),
                    ..none()
                },
                "h1: processor.send_us, in ms, = -0.001",
            ),
            (Station { processor: processor(1.0, 0.0), ..none() }, "need a sending_queue"),
            (
                Station { processor: processor(0.0, 1.0), receive, ..none() },
                "receive and processor.receive_us both",
            ),
        ] {
            let error = refused(&with_station(station));
            assert!(error.contains(says), "{error:?} does not say {says:?}");
        }
    }

    #[test]
    fn a_cellular_host_is_named_when_its_path_is_wrong() {
        let own = Path { down: Direction { loss: 2.0, ..Direction::default() }, ..Path::default() };
        let plan = Plan { ports: vec![port(1, Side::Cellular(own))], ..Plan::default() };
        assert_eq!(refused(&plan), "host h1: path.down.loss = 2: between 0 and 1");
    }

    #[test]
    fn a_link_is_of_a_wired_host() {
        let cellular = Side::Cellular(Path::default());
        let air = Side::Air(Station::default());
        let ports = vec![port(1, Side::Near), port(2, air), port(3, cellular)];
        let refused_for = |name: &str, link: Path| {
            let access_links = [(name.to_owned(), link)].into();
            let ports = ports.clone();
            refused(&Plan { air: Some(Air::default()), ports, access_links, ..Plan::default() })
        };
        let plain = Path::default;
        assert!(refused_for("h9", plain()).contains("there is no host h9"));
        assert!(refused_for("h2", plain()).contains("its link is the air; remove the link"));
        assert!(refused_for("h3", plain()).contains("its link is its cellular path"));
        let wrong = Path { rtt_ms: -1.0, ..Path::default() };
        assert!(refused_for("h1", wrong).contains("host h1: link.rtt_ms = -1"));
    }

    #[test]
    fn a_stage_is_named_when_its_numbers_are_wrong() {
        let stage = Direction { loss: 2.0, ..Direction::default() };
        let up = Direction { stages: vec![Direction::default(), stage], ..Direction::default() };
        assert!(refused(&with_up(up)).contains("path.up.stages.1.loss = 2"));
        let trace = Trace { file: Some("x.trace".into()), ..Trace::default() };
        let up = Direction { trace: Some(trace), ..Direction::default() };
        assert!(refused(&with_up(up)).contains("x.trace was not read"));
    }

    #[test]
    fn hosts_must_be_told_apart() {
        let mut twins = vec![port(1, Side::Near), port(1, Side::Far)];
        let plan = |ports: &[Port]| Plan { ports: ports.to_vec(), ..Plan::default() };
        assert_eq!(refused(&plan(&twins)), "two hosts are named h1");
        twins[1].name = "other".to_owned();
        assert_eq!(refused(&plan(&twins)), "hosts h1 and other have the same MAC address");
        twins[1].mac[0] = 1;
        assert!(refused(&plan(&twins)).contains("group address"));
    }

    #[test]
    fn a_station_needs_an_air() {
        let mut plan = with_station(Station::default());
        plan.air = None;
        assert!(refused(&plan).contains("there is no [air]: add it"));
    }
}
