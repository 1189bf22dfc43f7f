//! Stations and their access point: what the air, drivers and processors do with packets.

use super::Network;
use super::event::What;
use crate::air::{Landing, Medium};
use crate::driver::Step;
use crate::packet::{Nanos, Packet};

impl Network {
    pub(super) fn queue_for_air(&mut self, now: Nanos, station: Option<usize>, packet: Packet) {
        let Some(air) = &mut self.air else { return };
        if !air.send_from_access_point(now, station, packet) {
            self.totals.air_queue_drops += 1;
        }
    }

    pub(super) fn send_on_air(&mut self, now: Nanos, station: usize, packet: Packet) {
        let Some(air) = &mut self.air else { return };
        let sent = air.send_from_station(now, station, packet);
        self.totals.air_queue_drops += u64::from(!sent);
    }

    /// Gives the station's processor what it can do now.
    pub(super) fn work(&mut self, now: Nanos, station: usize) {
        let index = self.stations[station];
        let room = |air: &Option<Medium>| air.as_ref().is_some_and(|air| air.has_room(station));
        while let Some(driver) = &mut self.ports[index].driver {
            let Some((step, packet, lasts)) = driver.begin(room(&self.air)) else { break };
            if lasts > 0 {
                self.push(now + lasts, What::Worked(station, step), packet);
                break;
            }
            self.worked(now, station, step, packet);
        }
    }

    /// A station's processor has done this with the packet.
    pub(super) fn worked(&mut self, now: Nanos, station: usize, step: Step, packet: Packet) {
        let index = self.stations[station];
        let Some(driver) = &mut self.ports[index].driver else { return };
        driver.end();
        match step {
            Step::Send => {
                let queued = driver.enqueue(packet);
                self.totals.sending_queue_drops += u64::from(!queued);
            }
            Step::Transfer => self.send_on_air(now, station, packet),
            Step::Receive => self.push(now, What::Deliver(index), packet),
        }
    }

    pub(super) fn receive(&mut self, now: Nanos, station: usize, packet: Packet) {
        let index = self.stations[station];
        let port = &mut self.ports[index];
        if let Some(driver) = &mut port.driver
            && port.receive.is_none()
        {
            driver.take_from_radio(packet);
            return self.work(now, station);
        }
        let at = match &mut port.receive {
            None => Some(now),
            Some(ring) => ring.enter(now, packet.frame.ip_bytes()).map(|service| service.ends),
        };
        match at {
            Some(at) => self.push(at, What::Deliver(index), packet),
            None => {
                port.receive_drops += 1;
                self.totals.receive_drops += 1;
            }
        }
    }

    pub(super) fn receive_group(&mut self, now: Nanos, packet: Packet) {
        let receivers: Vec<usize> = (0..self.stations.len())
            .filter(|station| self.stations[*station] != packet.from)
            .collect();
        self.count_copies(receivers.len() as u64);
        for station in receivers {
            let heard = self.air.as_mut().is_some_and(|air| air.hears_group_frame(station));
            if heard {
                self.receive(now, station, packet.clone());
            } else {
                self.totals.group_errors += 1;
            }
        }
    }

    pub(super) fn access(&mut self, now: Nanos) {
        let Some(air) = &mut self.air else { return };
        let mut landings = std::mem::take(&mut self.landings);
        air.access(now, &mut landings);
        for landing in landings.drain(..) {
            match landing {
                Landing::OutOfRetries => self.totals.retry_drops += 1,
                Landing::Arrived { at, towards, packet } => {
                    self.push(at, What::Landed(towards), packet);
                }
            }
        }
        self.landings = landings;
        // A frame that was sent or given up has left room in a radio.
        for station in 0..self.stations.len() {
            self.work(now, station);
        }
    }
}
