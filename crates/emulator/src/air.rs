//! The air that the stations and the access point share, half duplex.
//!
//! One event suffices: *access*, when one or several senders begin. Everything about the exchange
//! follows from it at once: who collides, which frame errs, when the data has arrived, and from
//! when on the air is idle again.

use crate::fading::Fading;
use crate::ht;
use crate::log::AirLog;
use crate::packet::{Nanos, Packet};
use crate::phy;
use crate::plan::{Access, Air, Standard, Station};
use crate::random::Stream;
use crate::sender::{Contention, Sender, Spacing};

/// 802.11's dot11ShortRetryLimit.
const DEFAULT_ATTEMPTS: u32 = 7;
const DEFAULT_QUEUE: u32 = 100;
/// A retry would need an ACK, which group frames do not get (9.3.6).
const GROUP_ATTEMPTS: u32 = 1;

/// The access point is the first sender, then the stations.
const ACCESS_POINT: usize = 0;

#[derive(Clone, Debug)]
pub(crate) struct Medium {
    senders: Vec<Sender>,
    radios: Vec<Radio>,
    state: Contention,
    most_attempts: u32,
    ampdu: ht::Limits,
    /// Time that the announcement of a data frame takes.
    protection: Nanos,
    /// Which sender sent last, for round robin.
    last: usize,
    busy: Nanos,
    accesses: u64,
    collisions: u64,
    /// Kept for their memory.
    winners: Vec<usize>,
    decoded: Vec<bool>,
    released: Vec<Packet>,
}

/// A station's link with the access point.
#[derive(Clone, Debug)]
struct Radio {
    format: Format,
    up: Errors,
    down: Errors,
    fading: Option<Fading>,
    /// As of the access that goes on.
    faded: bool,
}

/// What data frames look like in both directions of a link.
#[derive(Clone, Copy, Debug)]
enum Format {
    Erp { mbit: u32 },
    Ht(ht::Mode),
}

/// One direction of a link: which frames are not decoded.
#[derive(Clone, Debug)]
struct Errors {
    share: f64,
    share_in_fade: f64,
    random: Stream,
}

impl Errors {
    fn strike(&mut self, faded: bool) -> bool {
        let share = if faded { self.share.max(self.share_in_fade) } else { self.share };
        self.random.chance(share)
    }
}

impl Radio {
    fn new(name: &str, station: &Station, air: &Air, seed: u64) -> Radio {
        let stream = |what: &str| Stream::new(seed, &format!("air.{name}.{what}"));
        let fading = station.fading.as_ref();
        let errors = |what: &str, share: f64, share_in_fade: Option<f64>| Errors {
            share,
            share_in_fade: share_in_fade.unwrap_or(share),
            random: stream(what),
        };
        Radio {
            format: match station.mcs {
                None => Format::Erp { mbit: station.phy_mbit },
                Some(mcs) => Format::Ht(ht::Mode::new(mcs, station.has_short_gi(), air.is_wide())),
            },
            up: errors("errors.up", station.frame_errors_up, fading.map(|f| f.errors_up)),
            down: errors("errors.down", station.frame_errors_down, fading.map(|f| f.errors_down)),
            fading: fading.map(|fading| Fading::new(fading, stream("fading"))),
            faded: false,
        }
    }
}

/// Where a packet on the air is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Towards {
    AccessPoint,
    /// By index among the stations.
    Station(usize),
    AllStations,
}

/// What became of a packet that was on the air.
#[derive(Debug)]
pub(crate) enum Landing {
    Arrived { at: Nanos, towards: Towards, packet: Packet },
    OutOfRetries,
}

impl Medium {
    pub fn new(air: &Air, stations: &[(&str, &Station)], seed: u64) -> Medium {
        let stream = |name: &str, what: &str| Stream::new(seed, &format!("air.{name}.{what}"));
        let slot = if air.long_slot { phy::LONG_SLOT } else { phy::SHORT_SLOT };
        let contend = air.access == Access::Dcf;
        let sender = |name: &str, queues: usize, most_packets: u32, edca: bool| {
            let gap = match (contend, edca) {
                (false, _) => phy::pifs(slot),
                (true, false) => phy::difs(slot),
                (true, true) => phy::aifs(slot),
            };
            let spacing = Spacing { gap, counts_taken_slot: edca };
            Sender::new(name, queues, most_packets, spacing, stream(name, "backoff"))
        };
        let most_packets = air.queue_packets.unwrap_or(DEFAULT_QUEUE);
        let edca = air.standard == Standard::N;
        // A host cannot be named so: names of hosts hold no space.
        let mut senders = vec![sender("access point", stations.len() + 1, most_packets, edca)];
        senders.extend(
            stations
                .iter()
                .map(|(name, own)| sender(name, 1, own.queue_packets, own.mcs.is_some())),
        );
        let radios = stations.iter().map(|(name, station)| Radio::new(name, station, air, seed));
        let protection = if air.cts_to_self { phy::cts_to_self() + phy::SIFS } else { 0 };
        Medium {
            radios: radios.collect(),
            last: senders.len() - 1,
            senders,
            state: Contention { contend, slot, idle_since: 0 },
            most_attempts: air.retry_limit.unwrap_or(DEFAULT_ATTEMPTS),
            ampdu: air.ampdu_limits(),
            protection,
            busy: 0,
            accesses: 0,
            collisions: 0,
            winners: Vec::new(),
            decoded: Vec::new(),
            released: Vec::new(),
        }
    }

    /// False: that station's queue is full.
    pub fn send_from_station(&mut self, now: Nanos, station: usize, packet: Packet) -> bool {
        self.senders[station + 1].push(now, 0, packet, &self.state)
    }

    /// False: the access point's queue for that station, or for group frames, is full.
    pub fn send_from_access_point(
        &mut self,
        now: Nanos,
        station: Option<usize>,
        packet: Packet,
    ) -> bool {
        let queue = station.unwrap_or(self.radios.len());
        self.senders[ACCESS_POINT].push(now, queue, packet, &self.state)
    }

    /// When the air is taken next, as things stand.
    pub fn next_access(&self) -> Option<Nanos> {
        self.senders.iter().filter_map(|sender| sender.sends_at(&self.state)).min()
    }

    /// No packet arrives over the air before this, unless another is queued meanwhile.
    pub fn next_arrival(&self) -> Option<Nanos> {
        let at = self.next_access()?;
        let shortest = self
            .senders
            .iter()
            .enumerate()
            .filter(|(_, sender)| self.begins_with(sender, at))
            .map(|(index, _)| self.ppdu(index).lasts)
            .min()?;
        Some(at + self.protection + shortest)
    }

    /// The air is taken at `now` = [`Medium::next_access`].
    pub fn access(&mut self, now: Nanos, landings: &mut Vec<Landing>) {
        for radio in &mut self.radios {
            radio.faded = radio.fading.as_mut().is_some_and(|fading| fading.at(now));
        }
        let mut winners = std::mem::take(&mut self.winners);
        self.choose(now, &mut winners);
        let collided = winners.len() > 1;
        self.accesses += 1;
        self.collisions += u64::from(collided);
        let before = self.state.clone();
        let mut idle_again = now;
        let mut last_energy = now;
        for &index in &winners {
            let exchange = self.exchange(index, now, collided);
            self.count_airtime(index, &exchange, now);
            idle_again = idle_again.max(exchange.idle);
            last_energy = last_energy.max(exchange.energy);
            self.conclude(index, &exchange, landings);
        }
        for index in (0..self.senders.len()).filter(|index| !winners.contains(index)) {
            self.senders[index].freeze(now, &before);
        }
        self.busy += last_energy - now;
        self.state.idle_since = idle_again;
        self.last = winners[winners.len() - 1];
        self.winners = winners;
    }

    /// Whether the station decodes its copy of a group frame.
    pub fn hears_group_frame(&mut self, station: usize) -> bool {
        let radio = &mut self.radios[station];
        !radio.down.strike(radio.faded)
    }

    /// Whether the station's radio takes one more packet.
    pub fn has_room(&self, station: usize) -> bool {
        self.senders[station + 1].has_room(0)
    }

    pub fn waiting_in_station(&self, station: usize) -> usize {
        self.senders[station + 1].queue_length(0)
    }

    /// In the access point for this station, or for all.
    pub fn waiting_for_station(&self, station: Option<usize>) -> usize {
        self.senders[ACCESS_POINT].queue_length(station.unwrap_or(self.radios.len()))
    }

    pub fn log(&self, now: Nanos) -> AirLog {
        AirLog {
            busy_share: if now > 0 { self.busy as f64 / now as f64 } else { 0.0 },
            accesses: self.accesses,
            collisions: self.collisions,
            access_point: self.senders[ACCESS_POINT].log(),
            stations: self.senders[1..].iter().map(Sender::log).collect(),
        }
    }

    /// All that begin in the same slot, since they cannot hear each other in time; in round robin
    /// the next in turn.
    fn choose(&self, now: Nanos, winners: &mut Vec<usize>) {
        winners.clear();
        let number = self.senders.len();
        let ready = (1..=number)
            .map(|step| (self.last + step) % number)
            .filter(|index| self.begins_with(&self.senders[*index], now));
        winners.extend(ready.take(if self.state.contend { number } else { 1 }));
    }

    fn begins_with(&self, sender: &Sender, access: Nanos) -> bool {
        sender.sends_at(&self.state).is_some_and(|at| at < access + self.state.slot)
    }

    /// What this sender would send now.
    fn ppdu(&self, index: usize) -> Ppdu {
        let Some((queue, window)) = self.senders[index].serving() else { return Ppdu::NONE };
        let head = window.sizes().next().unwrap_or(0);
        let link = self.link(index, queue);
        let towards = match (index, link) {
            (_, None) => Towards::AllStations,
            (ACCESS_POINT, Some(station)) => Towards::Station(station),
            _ => Towards::AccessPoint,
        };
        let (packets, lasts, answer) = match link.map(|station| self.radios[station].format) {
            None => (1, phy::data(head, phy::GROUP_RATE_MBIT), 0),
            Some(Format::Erp { mbit }) => (1, phy::data(head, mbit), phy::SIFS + phy::ack(mbit)),
            Some(Format::Ht(mode)) => {
                let (packets, lasts) = self.ampdu.fill(mode, window.sizes());
                (packets, lasts, mode.answer(packets))
            }
        };
        Ppdu { link, towards, packets, lasts, answer }
    }

    /// The station whose link this queue of this sender uses; none: all, a group frame.
    fn link(&self, index: usize, queue: usize) -> Option<usize> {
        match index {
            ACCESS_POINT => (queue < self.radios.len()).then_some(queue),
            station => Some(station - 1),
        }
    }

    /// Which frames are decoded is left in `self.decoded`.
    fn exchange(&mut self, index: usize, now: Nanos, collided: bool) -> Exchange {
        let ppdu = self.ppdu(index);
        let arrives = now + self.protection + ppdu.lasts;
        self.decoded.clear();
        if collided {
            self.decoded.resize(ppdu.packets, false);
        } else {
            let mut link = ppdu.link.map(|station| {
                let Radio { up, down, faded, .. } = &mut self.radios[station];
                (if index == ACCESS_POINT { down } else { up }, *faded)
            });
            self.decoded.extend(
                (0..ppdu.packets)
                    .map(|_| link.as_mut().is_none_or(|(errors, faded)| !errors.strike(*faded))),
            );
        }
        // A failed exchange keeps the air as long as a good one: those who decoded its header
        // obey the NAV, the others wait EIFS, and the sender its ACK timeout.
        let idle = arrives + ppdu.answer;
        let energy = if self.decoded.contains(&true) { idle } else { arrives };
        Exchange { link: ppdu.link, towards: ppdu.towards, collided, arrives, energy, idle }
    }

    fn count_airtime(&mut self, index: usize, exchange: &Exchange, now: Nanos) {
        let airtime_s = (exchange.energy - now) as f64 / 1e9;
        self.senders[index].log.airtime_s += airtime_s;
        if let (ACCESS_POINT, Some(station)) = (index, exchange.link) {
            self.senders[station + 1].log.airtime_down_s += airtime_s;
        }
    }

    fn conclude(&mut self, index: usize, exchange: &Exchange, landings: &mut Vec<Landing>) {
        let most_attempts = match exchange.towards {
            Towards::AllStations => GROUP_ATTEMPTS,
            _ => self.most_attempts,
        };
        let sender = &mut self.senders[index];
        let failed = self.decoded.iter().filter(|decoded| !**decoded).count() as u64;
        sender.log.collisions += if exchange.collided { failed } else { 0 };
        sender.log.frame_errors += if exchange.collided { 0 } else { failed };
        let released = &mut self.released;
        let given_up = sender.sent(&self.decoded, most_attempts, &self.state, released);
        let (at, towards) = (exchange.arrives, exchange.towards);
        let arrived = |packet| Landing::Arrived { at, towards, packet };
        landings.extend(self.released.drain(..).map(arrived));
        landings.extend((0..given_up).map(|_| Landing::OutOfRetries));
    }
}

/// What one sender sends at once.
#[derive(Clone, Copy, Debug)]
struct Ppdu {
    /// The station whose link it uses; none: all, a group frame.
    link: Option<usize>,
    towards: Towards,
    packets: usize,
    lasts: Nanos,
    /// From its end to that of the ACK or BlockAck.
    answer: Nanos,
}

impl Ppdu {
    const NONE: Ppdu =
        Ppdu { link: None, towards: Towards::AllStations, packets: 0, lasts: 0, answer: 0 };
}

/// One sender's part of an access.
struct Exchange {
    link: Option<usize>,
    towards: Towards,
    collided: bool,
    /// The data has ended.
    arrives: Nanos,
    /// The last frame of the exchange has ended.
    energy: Nanos,
    /// Others may take the air for idle.
    idle: Nanos,
}
