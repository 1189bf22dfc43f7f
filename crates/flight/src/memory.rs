//! The last events, bounded by time and number; what older ones said of connections is kept.

use std::collections::{HashSet, VecDeque};

use transom_event::{Directory, Event, Raw};

/// Events that there is room for when the first one comes.
const LEAST: usize = 1024;

pub struct Memory {
    events: VecDeque<Raw>,
    most: usize,
    keep_ns: u64,
    /// Of connections whose `open` was given up.
    earlier: Directory,
    crowded_out: CrowdedOut,
}

/// Events that were given up before their time, for lack of room; they age as if they were there.
#[derive(Default)]
struct CrowdedOut {
    /// Time of the last one, and how many: of a slice of time each.
    slices: VecDeque<(u64, u64)>,
}

/// Of the time that is kept: so exactly crowded-out events age.
const SLICES: u64 = 64;

impl CrowdedOut {
    fn add(&mut self, time_ns: u64, slice_ns: u64) {
        match self.slices.back_mut() {
            Some((last_ns, number)) if *last_ns / slice_ns == time_ns / slice_ns => {
                (*last_ns, *number) = (time_ns, *number + 1);
            }
            _ => self.slices.push_back((time_ns, 1)),
        }
    }

    fn forget_before(&mut self, oldest_ns: u64) {
        while self.slices.front().is_some_and(|&(last_ns, _)| last_ns < oldest_ns) {
            self.slices.pop_front();
        }
    }
}

impl Memory {
    /// Events of this time, and this many at most.
    pub fn new(keep_ns: u64, most: usize) -> Memory {
        Memory {
            events: VecDeque::new(),
            most: most.max(1),
            keep_ns,
            earlier: Directory::default(),
            crowded_out: CrowdedOut::default(),
        }
    }

    pub fn push(&mut self, raw: &Raw) {
        if self.events.len() == self.most {
            let slice_ns = (self.keep_ns / SLICES).max(1);
            self.crowded_out.add(self.events[0].head.time_ns, slice_ns);
            self.give_up_first();
        }
        self.make_room();
        self.events.push_back(*raw);
        let oldest = raw.head.time_ns.saturating_sub(self.keep_ns);
        self.crowded_out.forget_before(oldest);
        while self.events.front().is_some_and(|first| first.head.time_ns < oldest) {
            self.give_up_first();
        }
    }

    /// It would double by itself, also beyond what was asked for, and fill all of that in its turn.
    fn make_room(&mut self) {
        let held = self.events.len();
        if held == self.events.capacity() {
            self.events.reserve_exact(held.max(LEAST).min(self.most - held));
        }
    }

    fn give_up_first(&mut self) {
        let Some(raw) = self.events.pop_front() else { return };
        if let Ok(event) = Event::try_from(&raw) {
            self.earlier.learn(&event);
        }
    }

    pub fn len(&self) -> usize {
        self.events.len()
    }

    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// How many events of the time that is kept were given up for lack of room, since the last time
    /// this was asked.
    pub fn crowded_out(&mut self) -> u64 {
        self.crowded_out.slices.drain(..).map(|(_, number)| number).sum()
    }

    /// All that is kept, in order: first who the connections are that began earlier.
    pub fn all(&self) -> impl Iterator<Item = Raw> {
        let first_ns = self.events.front().map_or(0, |first| first.head.time_ns);
        let seen: HashSet<u64> = self.events.iter().map(|raw| raw.head.cookie).collect();
        let opens = self.earlier.reopened(first_ns).filter(move |open| seen.contains(&open.cookie));
        let opens = opens.map(|open| Raw::from(&open));
        opens.chain(self.events.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use transom_event::{Body, Kind, LossCause, Open, Place, State};

    fn event(time_ns: u64, cookie: u64, kind: Kind) -> Raw {
        let body = match kind {
            Kind::Open => Body::Open(Open { family: 2, ..Open::default() }),
            _ => Body::State(State::default()),
        };
        let place = Place::SetState;
        Raw::from(&Event { time_ns, cookie, tgid: 1, cpu: 0, kind, place, aux: [1, 0], body })
    }

    fn kinds(memory: &Memory) -> Vec<(u64, Kind)> {
        let of = |raw: Raw| (raw.head.cookie, Event::try_from(&raw).unwrap().kind);
        memory.all().map(of).collect()
    }

    #[test]
    fn what_is_older_than_asked_for_is_given_up() {
        let mut memory = Memory::new(100, 1000);
        for time in [0, 50, 100, 150, 201] {
            memory.push(&event(time, 1, Kind::Ack));
        }
        assert_eq!(memory.len(), 2);
        assert_eq!(memory.crowded_out(), 0);
    }

    #[test]
    fn a_connection_that_began_earlier_is_still_known() {
        let mut memory = Memory::new(100, 1000);
        memory.push(&event(0, 7, Kind::Open));
        memory.push(&event(0, 8, Kind::Open));
        memory.push(&event(500, 7, Kind::Ack));
        assert_eq!(kinds(&memory), [(7, Kind::Open), (7, Kind::Ack)], "8 has no event here");
        assert_eq!(memory.all().next().unwrap().head.time_ns, 500);
    }

    #[test]
    fn one_that_has_ended_is_forgotten() {
        let mut memory = Memory::new(100, 1000);
        for (time, cookie, kind) in
            [(0, 7, Kind::Open), (1, 7, Kind::Close), (2, 8, Kind::Ack), (500, 7, Kind::Ack)]
        {
            memory.push(&event(time, cookie, kind));
        }
        assert_eq!(kinds(&memory), [(7, Kind::Ack)]);
    }

    #[test]
    fn for_lack_of_room_the_oldest_go_and_are_counted() {
        let mut memory = Memory::new(u64::MAX, 3);
        (0..5).for_each(|time| memory.push(&event(time, 1, Kind::Ack)));
        assert_eq!((memory.len(), memory.crowded_out(), memory.crowded_out()), (3, 2, 0));
    }

    #[test]
    fn what_was_lost_or_crowded_out_before_that_time_is_in_no_later_file() {
        let mut memory = Memory::new(1000, 3);
        memory.push(&Raw::from(&Event::lost(LossCause::Ring, 1_000_000, 10)));
        (11..20).for_each(|time| memory.push(&event(time, 1, Kind::Ack)));
        (2000..2003).for_each(|time| memory.push(&event(time, 1, Kind::Ack)));
        assert_eq!(memory.crowded_out(), 0);
        assert_eq!(kinds(&memory), [(1, Kind::Ack); 3]);
        (2003..2005).for_each(|time| memory.push(&event(time, 1, Kind::Ack)));
        assert_eq!(memory.crowded_out(), 2, "of this time");
    }

    #[test]
    fn it_takes_the_memory_that_was_asked_for_and_no_more() {
        for most in [600, 5000] {
            let mut memory = Memory::new(u64::MAX, most);
            (0..2 * most as u64).for_each(|time| memory.push(&event(time, 1, Kind::Ack)));
            assert_eq!((memory.len(), memory.events.capacity()), (most, most));
        }
    }

    proptest! {
        #[test]
        fn there_are_never_more_than_asked_for_and_in_order(
            steps in prop::collection::vec((0u64..50, 0u64..4, 0usize..3), 1..200),
            keep in 1u64..200,
            most in 1usize..50,
        ) {
            let mut memory = Memory::new(keep, most);
            let mut time = 0;
            for (step, cookie, kind) in steps {
                time += step;
                memory.push(&event(time, cookie, [Kind::Open, Kind::Ack, Kind::Close][kind]));
                prop_assert!(memory.len() <= most);
                let times: Vec<u64> = memory.all().map(|raw| raw.head.time_ns).collect();
                prop_assert!(times.windows(2).all(|pair| pair[0] <= pair[1]));
                prop_assert!(time - times[0] <= keep);
            }
        }
    }
}
