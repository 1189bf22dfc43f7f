//! Plans that cannot be emulated are refused before anything is made.

use anyhow::{Result, bail, ensure};

use super::{Air, Direction, Plan, Receive, Side, Station};
use crate::phy;

/// A delay or hold above this is taken for a mistake of units.
const LONGEST_MS: f64 = 60_000.0;

impl Plan {
    /// Refuses numbers out of their range and hosts that cannot be told apart, by name.
    pub fn check(&self) -> Result<()> {
        time("path.rtt_ms", self.path.rtt_ms)?;
        direction("path.up", &self.path.up)?;
        direction("path.down", &self.path.down)?;
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
            if let Side::Air(attached) = &port.side {
                ensure!(
                    self.air.is_some(),
                    "host {} is a station, but there is no [air]: add it, or attach the host by \
                     wire",
                    port.name
                );
                station(&port.name, attached)?;
            }
        }
        Ok(())
    }
}

fn check_air(air: &Air) -> Result<()> {
    ensure!(air.queue_packets != Some(0), "air.queue_packets: at least 1");
    ensure!(air.retry_limit != Some(0), "air.retry_limit: at least 1, the first attempt");
    Ok(())
}

fn direction(name: &str, direction: &Direction) -> Result<()> {
    time(&format!("{name}.delay_ms"), direction.delay_ms)?;
    time(&format!("{name}.reorder_ms"), direction.reorder_ms)?;
    share(&format!("{name}.loss"), direction.loss)?;
    share(&format!("{name}.duplicate"), direction.duplicate)?;
    share(&format!("{name}.reorder"), direction.reorder)?;
    if let Some(mbit) = direction.rate_mbit {
        rate(&format!("{name}.rate_mbit"), mbit)?;
    } else if direction.queue_packets.is_some() || direction.queue_bytes.is_some() {
        bail!("{name}: a queue without rate_mbit never fills; give the rate too");
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

fn station(name: &str, station: &Station) -> Result<()> {
    ensure!(
        phy::RATES_MBIT.contains(&station.phy_mbit),
        "host {name}: phy_mbit = {} is no rate of 802.11g, which has {:?}",
        station.phy_mbit,
        phy::RATES_MBIT
    );
    ensure!(station.queue_packets > 0, "host {name}: station.queue_packets is at least 1");
    share(&format!("host {name}: frame_errors_up"), station.frame_errors_up)?;
    share(&format!("host {name}: frame_errors_down"), station.frame_errors_down)?;
    if let Some(Receive { rate_mbit, .. }) = station.receive {
        rate(&format!("host {name}: receive.rate_mbit"), rate_mbit)?;
    }
    Ok(())
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
    ensure!(
        (0.001..=100_000.0).contains(&mbit),
        "{name} = {mbit}: between 0.001 and 100000 Mbit/s"
    );
    Ok(())
}
