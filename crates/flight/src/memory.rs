//! The last events, bounded by time and number; what older ones said of connections is kept.

use std::collections::{HashSet, VecDeque};

use transom_event::{Directory, Event, Raw};

pub struct Memory {
    events: VecDeque<Raw>,
    most: usize,
    keep_ns: u64,
    /// Of connections whose `open` was given up.
    earlier: Directory,
    /// Events that were given up before their time, for lack of room.
    crowded_out: u64,
}

impl Memory {
    /// Events of this time, and this many at most.
    pub fn new(keep_ns: u64, most: usize) -> Memory {
        Memory {
            events: VecDeque::new(),
            most: most.max(1),
            keep_ns,
            earlier: Directory::default(),
            crowded_out: 0,
        }
    }

    pub fn push(&mut self, raw: &Raw) {
        if self.events.len() == self.most {
            self.crowded_out += 1;
            self.give_up_first();
        }
        self.events.push_back(*raw);
        let oldest = raw.head.time_ns.saturating_sub(self.keep_ns);
        while self.events.front().is_some_and(|first| first.head.time_ns < oldest) {
            self.give_up_first();
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

    /// How many events were given up before their time, since the last time this was asked.
    pub fn crowded_out(&mut self) -> u64 {
        std::mem::take(&mut self.crowded_out)
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
    use transom_event::{Body, Kind, Open, Place, State};

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
