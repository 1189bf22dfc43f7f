//! The Ethernet switches at both ends of the path: where packets go.

use super::event::What;
use super::{DOWN, Network, Place, UP};
use crate::packet::{Nanos, Packet, is_group};

impl Network {
    /// At the access point, from a station or a near host.
    pub(super) fn switch_near(&mut self, now: Nanos, packet: Packet) {
        let Some(to) = packet.frame.destination() else { return };
        if is_group(to) {
            let far = self.ports.iter().any(|port| port.place == Place::Far);
            let receivers = self.near_receivers(packet.from) + u64::from(far);
            self.count_copies(receivers);
            self.flood_near(now, &packet);
            if far {
                self.enter(now, UP, packet);
            }
            return;
        }
        match self.host_of(to, packet.from) {
            None => self.totals.no_host += 1,
            Some((_, Place::Far | Place::Cellular(_))) => self.enter(now, UP, packet),
            Some((port, place)) => self.hand_near(now, port, place, packet),
        }
    }

    /// At the far end of the path, from a far host.
    pub(super) fn switch_far(&mut self, now: Nanos, packet: Packet) {
        let Some(to) = packet.frame.destination() else { return };
        if is_group(to) {
            let near = self.ports.iter().any(|port| port.place.is_near());
            let others = self.wired(Place::Far, packet.from).count() as u64;
            self.count_copies(others + u64::from(near));
            self.flood_wired(now, Place::Far, &packet);
            if near {
                self.enter(now, DOWN, packet);
            }
            return;
        }
        match self.host_of(to, packet.from) {
            None => self.totals.no_host += 1,
            Some((port, Place::Far)) => self.hand_over(now, port, packet),
            Some((_, place @ Place::Cellular(_))) => self.enter(now, place.path().1, packet),
            Some(_) => self.enter(now, DOWN, packet),
        }
    }

    pub(super) fn leave_path_near(&mut self, now: Nanos, packet: Packet) {
        let Some(to) = packet.frame.destination() else { return };
        if is_group(to) {
            self.count_copies(self.near_receivers(packet.from));
            self.flood_near(now, &packet);
            return;
        }
        match self.host_of(to, packet.from) {
            None => self.totals.no_host += 1,
            Some((port, place)) => self.hand_near(now, port, place, packet),
        }
    }

    pub(super) fn leave_path_far(&mut self, now: Nanos, packet: Packet) {
        let Some(to) = packet.frame.destination() else { return };
        if is_group(to) {
            self.count_copies(self.wired(Place::Far, packet.from).count() as u64);
            self.flood_wired(now, Place::Far, &packet);
            return;
        }
        match self.host_of(to, packet.from) {
            None => self.totals.no_host += 1,
            Some((_, place @ Place::Cellular(_))) => self.enter(now, place.path().1, packet),
            Some((port, _)) => self.hand_over(now, port, packet),
        }
    }

    fn hand_near(&mut self, now: Nanos, port: usize, place: Place, packet: Packet) {
        match place {
            Place::Station(station) => self.queue_for_air(now, Some(station), packet),
            _ => self.hand_over(now, port, packet),
        }
    }

    /// To a wired host, by its own link if it has one.
    fn hand_over(&mut self, now: Nanos, port: usize, packet: Packet) {
        match self.ports[port].link {
            Some(up) => self.enter(now, up + 1, packet),
            None => self.push(now, What::Deliver(port), packet),
        }
    }

    fn flood_near(&mut self, now: Nanos, packet: &Packet) {
        self.flood_wired(now, Place::Near, packet);
        if self.stations.iter().any(|port| *port != packet.from) {
            self.queue_for_air(now, None, packet.clone());
        }
    }

    fn flood_wired(&mut self, now: Nanos, place: Place, packet: &Packet) {
        let receivers: Vec<usize> = self.wired(place, packet.from).collect();
        for port in receivers {
            self.hand_over(now, port, packet.clone());
        }
    }

    fn wired(&self, place: Place, except: usize) -> impl Iterator<Item = usize> {
        let ports = self.ports.iter().enumerate();
        ports
            .filter(move |(index, port)| port.place == place && *index != except)
            .map(|(index, _)| index)
    }

    /// Copies that a group frame makes at the access point; one for the air.
    fn near_receivers(&self, from: usize) -> u64 {
        let air = self.stations.iter().any(|port| *port != from);
        self.wired(Place::Near, from).count() as u64 + u64::from(air)
    }

    /// One packet becomes as many as there are receivers.
    pub(super) fn count_copies(&mut self, receivers: u64) {
        match receivers {
            0 => self.totals.no_host += 1,
            more => self.totals.copied += more - 1,
        }
    }

    fn host_of(&self, mac: [u8; 6], except: usize) -> Option<(usize, Place)> {
        let at = self.owners.binary_search_by_key(&mac, |(mac, _)| *mac).ok()?;
        let index = self.owners[at].1;
        (index != except).then(|| (index, self.ports[index].place))
    }
}
