//! Them, their network, or us: by what a customer's connections share and others' do not. Pure.
//!
//! A verdict of one connection says little about a customer: every path has a queue now and then.
//! What counts is how much more frequent it is than with others at the same hosts at the same time,
//! and whether a host has it with everybody.

use std::collections::{BTreeMap, BTreeSet};

/// Fewer connections are not judged.
pub const LEAST: f64 = 20.0;
/// Standard errors that a difference must have; more for hosts, of which many are looked at.
const SURE: f64 = 3.0;
const SURE_OF_A_HOST: f64 = 4.0;
/// And a difference that matters.
const LEAST_DIFFERENCE: f64 = 0.05;
const LEAST_RATIO: f64 = 1.5;
/// A host that has it with everybody matters to a customer that meets it there in so many of its
/// connections, which are at least this part of all in which it meets it.
const LEAST_AT_HOSTS: f64 = 0.02;
const LEAST_PART_AT_HOSTS: f64 = 0.25;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The peer's program or its buffer.
    Them,
    Network,
    Us,
}

impl Side {
    pub const ALL: [Side; 3] = [Side::Them, Side::Network, Side::Us];

    /// Whose matter a row's verdict is. `None`: nobody's, as far as counters tell.
    pub fn of(verdict: &str) -> Option<Side> {
        Some(match verdict {
            "receiver_window" => Side::Them,
            "timeouts" | "unclear_loss" | "full_path" | "peer_vanished" | "handshake" => {
                Side::Network
            }
            "send_buffer" => Side::Us,
            _ => return None,
        })
    }
}

/// A row of the question `beside_others`.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Empty: all hosts without connections of the customer.
    pub host: String,
    pub is_customer: bool,
    pub verdict: String,
    pub ended: f64,
    pub held_back_us: f64,
}

/// Connections, and those that one side held back.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Count {
    pub all: f64,
    pub held: f64,
    pub held_back_us: f64,
}

impl Count {
    fn add(&mut self, row: &Row, side: Side) {
        self.all += row.ended;
        if Side::of(&row.verdict) == Some(side) {
            self.held += row.ended;
            self.held_back_us += row.held_back_us;
        }
    }

    pub fn share(&self) -> Option<f64> {
        (self.all > 0.0).then(|| self.held / self.all)
    }
}

/// What one side holds back of each group.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shares {
    pub customer: Count,
    /// At hosts that serve the customer.
    pub others: Count,
    /// At all other hosts.
    pub elsewhere: Count,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// More than with others at the same hosts.
    Customer(Side),
    /// These hosts have it with everybody: ours. The count is of the customer's connections there.
    Hosts(Side, Vec<String>, Count),
}

impl Finding {
    pub fn side(&self) -> Side {
        match self {
            Finding::Customer(side) => *side,
            Finding::Hosts(..) => Side::Us,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// What cost the customer most comes first.
    Found(Vec<Finding>),
    /// Its connections are as others' are.
    Nobody,
    CannotTell(String),
}

/// What each side holds back of each group of connections.
pub fn shares(rows: &[Row]) -> BTreeMap<Side, Shares> {
    let of = |side| {
        let mut shares = Shares::default();
        for row in rows {
            let group = match (row.is_customer, row.host.is_empty()) {
                (true, _) => &mut shares.customer,
                (false, false) => &mut shares.others,
                (false, true) => &mut shares.elsewhere,
            };
            group.add(row, side);
        }
        (side, shares)
    };
    Side::ALL.into_iter().map(of).collect()
}

pub fn judge(rows: &[Row]) -> Answer {
    let sum = |keep: &dyn Fn(&Row) -> bool, side| {
        let mut count = Count::default();
        rows.iter().filter(|row| keep(row)).for_each(|row| count.add(row, side));
        count
    };
    let all = |is_customer: bool| sum(&|row| row.is_customer == is_customer, Side::Us).all;
    if all(true) < LEAST {
        return Answer::CannotTell(format!(
            "the customer has {} connections in this time, and {LEAST} are the least: take more time",
            all(true)
        ));
    }
    if all(false) < LEAST {
        return Answer::CannotTell("there are no others to compare with in this time".into());
    }
    let mut found = Vec::new();
    for side in Side::ALL {
        let hosts = hosts_with_everybody(rows, side);
        let there = |row: &Row| hosts.contains(&row.host);
        let on_hosts = sum(&|row| row.is_customer && there(row), side);
        let anywhere = sum(&|row| row.is_customer, side);
        if on_hosts.held >= LEAST_AT_HOSTS * anywhere.all
            && on_hosts.held >= LEAST_PART_AT_HOSTS * anywhere.held
            && on_hosts.held > 0.0
        {
            let hosts = hosts.iter().cloned().collect();
            found.push((on_hosts.held_back_us, Finding::Hosts(side, hosts, on_hosts)));
        }
        let customer = sum(&|row| row.is_customer && !there(row), side);
        let others = sum(&|row| !row.is_customer && !there(row) && !row.host.is_empty(), side);
        let others = if others.all < LEAST { sum(&|row| !row.is_customer, side) } else { others };
        if customer.all >= LEAST && is_more(&customer, &others, SURE) {
            found.push((customer.held_back_us, Finding::Customer(side)));
        }
    }
    if found.is_empty() {
        return Answer::Nobody;
    }
    found.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    Answer::Found(found.into_iter().map(|(_, finding)| finding).collect())
}

/// Hosts at which others than the customer have it more than at all other hosts.
fn hosts_with_everybody(rows: &[Row], side: Side) -> BTreeSet<String> {
    let mut by_host: BTreeMap<&str, Count> = BTreeMap::new();
    for row in rows.iter().filter(|row| !row.is_customer) {
        by_host.entry(&row.host).or_default().add(row, side);
    }
    let mut all = Count::default();
    for count in by_host.values() {
        all.all += count.all;
        all.held += count.held;
    }
    let stands_out = |(host, count): &(&&str, &Count)| {
        let rest = Count { all: all.all - count.all, held: all.held - count.held, ..**count };
        let is_many = count.all >= LEAST && rest.all >= LEAST;
        !host.is_empty() && is_many && is_more(count, &rest, SURE_OF_A_HOST)
    };
    by_host.iter().filter(stands_out).map(|(host, _)| (*host).to_owned()).collect()
}

/// Whether the share is larger by what chance does not explain (Agresti and Caffo's interval, which
/// holds for shares of 0 and 1, too) and by what matters.
fn is_more(this: &Count, other: &Count, sure: f64) -> bool {
    let (Some(share), Some(others)) = (this.share(), other.share()) else { return false };
    let part = |count: &Count| {
        let share = (count.held + 1.0) / (count.all + 2.0);
        (share, share * (1.0 - share) / (count.all + 2.0))
    };
    let ((a, a_varies), (b, b_varies)) = (part(this), part(other));
    a - b > sure * (a_varies + b_varies).sqrt()
        && share - others >= LEAST_DIFFERENCE
        && share >= LEAST_RATIO * others
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rows(host: &str, is_customer: bool, counts: &[(&str, u32)]) -> Vec<Row> {
        let row = |&(verdict, ended): &(&str, u32)| Row {
            host: host.into(),
            is_customer,
            verdict: verdict.into(),
            ended: ended.into(),
            held_back_us: f64::from(ended) * 1e5,
        };
        counts.iter().map(row).collect()
    }

    const CALM: &[(&str, u32)] = &[("cwnd", 880), ("unclear_loss", 60), ("receiver_window", 60)];

    fn beside(customer: &[(&str, u32)]) -> Answer {
        judge(&[rows("a", true, customer), rows("a", false, CALM)].concat())
    }

    #[test]
    fn what_a_customer_has_and_others_have_not_is_its_own_or_its_networks_or_ours() {
        for (verdict, side) in [
            ("receiver_window", Side::Them),
            ("unclear_loss", Side::Network),
            ("timeouts", Side::Network),
            ("handshake", Side::Network),
            ("send_buffer", Side::Us),
        ] {
            let answer = beside(&[(verdict, 30), ("cwnd", 30)]);
            assert_eq!(answer, Answer::Found(vec![Finding::Customer(side)]), "{verdict}");
        }
    }

    #[test]
    fn a_customer_like_others_is_not_blamed() {
        assert_eq!(
            beside(&[("cwnd", 88), ("unclear_loss", 6), ("receiver_window", 6)]),
            Answer::Nobody
        );
        assert_eq!(beside(&[("cwnd", 100)]), Answer::Nobody);
        assert_eq!(beside(&[("application", 80), ("other_side", 20)]), Answer::Nobody);
        // Three of twenty, where others have one in seventeen: that is chance.
        assert_eq!(beside(&[("cwnd", 17), ("unclear_loss", 3)]), Answer::Nobody);
    }

    #[test]
    fn a_host_that_loses_to_everybody_is_ours_and_named() {
        let lossy = &[("cwnd", 500), ("unclear_loss", 500)];
        let all = [
            rows("a", true, &[("unclear_loss", 40), ("cwnd", 10)]),
            rows("a", false, lossy),
            rows("b", true, &[("cwnd", 45), ("unclear_loss", 5)]),
            rows("b", false, CALM),
            rows("", false, CALM),
        ]
        .concat();
        let there = Count { all: 50.0, held: 40.0, held_back_us: 40.0 * 1e5 };
        let hosts = Finding::Hosts(Side::Network, vec!["a".into()], there);
        assert_eq!(judge(&all), Answer::Found(vec![hosts]));
        // The same customer where only it loses there.
        let own: Vec<Row> = all
            .iter()
            .filter(|row| row.host != "a" || row.is_customer)
            .cloned()
            .chain(rows("a", false, CALM))
            .collect();
        assert_eq!(judge(&own), Answer::Found(vec![Finding::Customer(Side::Network)]));
    }

    #[test]
    fn a_host_that_the_customer_hardly_met_is_not_why_it_was_slow() {
        let all = [
            rows("a", true, &[("unclear_loss", 1)]),
            rows("a", false, &[("cwnd", 500), ("unclear_loss", 500)]),
            rows("b", true, &[("cwnd", 550)]),
            rows("b", false, CALM),
        ];
        assert_eq!(judge(&all.concat()), Answer::Nobody);
    }

    #[test]
    fn two_causes_are_told_in_the_order_of_what_they_cost() {
        let answer = beside(&[("receiver_window", 50), ("timeouts", 30), ("cwnd", 20)]);
        let found = vec![Finding::Customer(Side::Them), Finding::Customer(Side::Network)];
        assert_eq!(answer, Answer::Found(found));
    }

    #[test]
    fn too_few_of_either_are_not_judged() {
        let reason = |rows: &[Row]| match judge(rows) {
            Answer::CannotTell(why) => why,
            answer => panic!("{answer:?}"),
        };
        let few = [rows("a", true, &[("timeouts", 19)]), rows("a", false, CALM)].concat();
        assert!(reason(&few).contains("has 19 connections"));
        assert!(reason(&rows("a", true, &[("timeouts", 90)])).contains("no others"));
        assert!(reason(&[]).contains("has 0 connections"));
    }

    proptest! {
        #[test]
        fn any_counts_have_an_answer(counts in proptest::collection::vec((0..4u8, any::<bool>(), 0..7usize, 0..2000u32), 0..60)) {
            let verdicts =
                ["cwnd", "timeouts", "receiver_window", "send_buffer", "handshake", "", "new one"];
            let hosts = ["", "a", "b", "c"];
            let of = |&(host, is_customer, verdict, ended): &(u8, bool, usize, u32)| {
                rows(hosts[usize::from(host)], is_customer, &[(verdicts[verdict], ended)])
            };
            if let Answer::Found(found) = judge(&counts.iter().flat_map(of).collect::<Vec<_>>()) {
                prop_assert!(!found.is_empty());
            }
        }
    }
}
