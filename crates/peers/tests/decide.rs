//! The decision: the same everywhere, and what the papers would have.

mod making;

use making::{any_report, report};
use proptest::prelude::*;
use transom_peers::{
    Algorithm, Function, Report, Rules, Treatment, Verdict, Why, decide, is_full, openings,
};

fn rules(function: Function) -> Rules {
    Rules { function, ..Rules::default() }
}

fn any_function() -> impl Strategy<Value = Function> {
    prop_oneof![Just(Function::Table), Just(Function::Stabilise), Just(Function::Share)]
}

fn any_group() -> impl Strategy<Value = Vec<Report>> {
    proptest::collection::vec(any_report(), 0..12)
}

/// Two hungry phones on a path of so many ms; the first takes more than its share.
fn two(rtt_ms: u32) -> Vec<Report> {
    (1..=2)
        .map(|n| {
            let mut report = report(n);
            report.flows[0].goodput_kbit = if n == 1 { 14_000 } else { 6000 };
            report.flows[0].min_rtt_us = rtt_ms * 1000;
            report.flows[0].srtt_us = rtt_ms * 1000 + 40_000;
            report
        })
        .collect()
}

fn treatment(verdict: &Verdict, terminal: usize) -> Treatment {
    verdict.decisions[terminal].flows[0].treatment
}

fn why(verdict: &Verdict, terminal: usize) -> Why {
    verdict.decisions[terminal].flows[0].why
}

proptest! {
    #[test]
    fn the_order_in_which_reports_came_does_not_matter(
        function in any_function(), group in any_group(), seed in any::<u64>(),
    ) {
        let mut other = group.clone();
        // A permutation by a key that has nothing to do with the reports.
        let mut key = seed;
        other.sort_by_cached_key(|_| {
            key = key.wrapping_mul(6364136223846793005).wrapping_add(1);
            key >> 20
        });
        let rules = rules(function);
        prop_assert_eq!(decide(&rules, &group), decide(&rules, &other));
    }

    #[test]
    fn a_report_heard_twice_counts_once(function in any_function(), group in any_group()) {
        let twice = [group.clone(), group.clone()].concat();
        let rules = rules(function);
        prop_assert_eq!(decide(&rules, &group), decide(&rules, &twice));
    }

    #[test]
    fn each_terminal_that_stays_and_each_of_its_flows_has_one_decision(
        function in any_function(), group in any_group(),
    ) {
        let verdict = decide(&rules(function), &group);
        for report in group.iter().filter(|report| !report.leaving) {
            let of_it = verdict.decisions.iter().filter(|d| d.terminal == report.terminal);
            let of_it: Vec<_> = of_it.collect();
            prop_assert_eq!(of_it.len(), 1);
            let flows: Vec<_> = of_it[0].flows.iter().map(|choice| choice.flow).collect();
            let theirs: Vec<_> = report.flows.iter().map(|flow| flow.id).collect();
            prop_assert_eq!(flows, theirs);
        }
    }

    #[test]
    fn a_terminal_alone_is_left_as_it_is(function in any_function(), mut alone in any_report()) {
        alone.leaving = false;
        let verdict = decide(&rules(function), &[alone]);
        let choices = &verdict.decisions[0].flows;
        prop_assert!(choices.iter().all(|c| c.treatment.is_none() && c.why == Why::Alone));
    }

    #[test]
    fn openings_do_not_overlap_and_do_something(
        function in any_function(), group in any_group(), own in any_report(),
    ) {
        let mut openings = openings(&rules(function), &group, &own);
        openings.sort_by_key(|opening| opening.from_us);
        prop_assert!(openings.windows(2).all(|two| two[0].to_us < two[1].from_us));
        prop_assert!(openings.iter().all(|o| o.from_us <= o.to_us && !o.treatment.is_none()));
    }

    #[test]
    fn no_cap_is_below_the_least(function in any_function(), group in any_group()) {
        let rules = rules(function);
        let least = rules.share.least_cap;
        for decision in decide(&rules, &group).decisions {
            for choice in decision.flows {
                prop_assert!(choice.treatment.cap.is_none_or(|cap| cap >= least));
            }
        }
    }

    #[test]
    fn the_shares_do_not_exceed_the_air(group in any_group()) {
        let verdict = decide(&rules(Function::Share), &group);
        let sum: u64 = verdict.decisions.iter().filter_map(|d| d.share_kbit).sum();
        prop_assert!(sum <= verdict.air_kbit);
    }

    #[test]
    fn a_terminal_twice_as_fast_has_twice_the_share(weight in 1..=500u16, air in 1000..100_000u32) {
        let mut group = two(100);
        for report in &mut group {
            // Each gets enough to claim all of it.
            (report.air_kbit, report.flows[0].goodput_kbit) = (air, air);
        }
        group[0].class = weight;
        group[1].class = weight * 2;
        let verdict = decide(&rules(Function::Share), &group);
        let share = |n: usize| verdict.decisions[n].share_kbit.unwrap() as f64;
        prop_assert!((share(1) / share(0) - 2.0).abs() < 0.01, "{} {}", share(0), share(1));
    }

    #[test]
    fn one_that_lies_about_the_air_moves_it_no_further_than_the_honest_ones_differ(
        honest in proptest::collection::vec(10_000..12_000u32, 4..9), lie in 1..=100_000_000u32,
    ) {
        let mut group: Vec<_> = honest.iter().enumerate().map(|(n, &air_kbit)| {
            Report { air_kbit, ..report(n as u64 + 1) }
        }).collect();
        group.push(Report { air_kbit: lie, ..report(99) });
        group.iter_mut().for_each(|report| report.flows[0].goodput_kbit = 1000);
        let air = decide(&rules(Function::Share), &group).air_kbit;
        prop_assert!((10_000..12_000).contains(&air), "{air}");
    }
}

#[test]
fn the_air_is_unknown_until_more_than_half_have_seen_it_full() {
    let air = |seen: &[u32]| {
        let group = (1..).zip(seen).map(|(n, &air_kbit)| Report { air_kbit, ..report(n) });
        decide(&rules(Function::Share), &group.collect::<Vec<_>>()).air_kbit
    };
    assert_eq!(air(&[1000, 0]), 0, "the first alone might lie");
    assert_eq!(air(&[1000, 0, 0]), 0);
    assert_eq!(air(&[1000, 30_000, 0]), 30_000);
    assert_eq!(air(&[1000, 1000]), 12_000, "and it carries at least what the group has now");
}

#[test]
fn what_one_does_not_want_the_others_get() {
    let mut group = two(100);
    group.push(report(3));
    group[2].flows[0].hungry = false;
    (group[0].flows[0].goodput_kbit, group[2].flows[0].goodput_kbit) = (13_000, 1000);
    let verdict = decide(&rules(Function::Share), &group);
    let shares: Vec<_> = verdict.decisions.iter().map(|d| d.share_kbit.unwrap()).collect();
    assert_eq!(shares, [9500, 9500, 1000]);
}

#[test]
fn one_that_wants_all_and_sends_nothing_takes_nothing_from_the_others() {
    let mut group: Vec<Report> = (1..=4).map(making::report).collect();
    let honest = decide(&rules(Function::Share), &group[..3]);
    (group[3].class, group[3].flows[0].goodput_kbit) = (1000, 0);
    let with_it = decide(&rules(Function::Share), &group);
    for (terminal, decision) in honest.decisions.iter().enumerate() {
        assert_eq!(with_it.decisions[terminal].share_kbit, decision.share_kbit);
        assert_eq!(with_it.decisions[terminal].flows[0].treatment, decision.flows[0].treatment);
    }
}

#[test]
fn one_that_sends_little_may_grow_to_four_times_of_it_and_no_more() {
    let mut group: Vec<Report> = (1..=3).map(making::report).collect();
    (group[2].class, group[2].flows[0].goodput_kbit) = (1000, 100);
    let verdict = decide(&rules(Function::Share), &group);
    assert_eq!(verdict.decisions[2].share_kbit, Some(400));
    let mut unbounded = rules(Function::Share);
    unbounded.share.growth = 0;
    let granted = |rules: &Rules| decide(rules, &group).decisions[2].share_kbit;
    assert_eq!(granted(&unbounded), Some(10_000), "a class counts twice the median at most");
    unbounded.share.believe_class = true;
    assert!(granted(&unbounded) > Some(15_000), "a claim suffices");
}

#[test]
fn share_does_nothing_while_only_one_wants_more_or_the_air_is_unknown() {
    let mut group = two(32);
    group[1].flows[0].hungry = false;
    let verdict = decide(&rules(Function::Share), &group);
    assert_eq!((why(&verdict, 0), treatment(&verdict, 0)), (Why::NoContest, Treatment::default()));
    let mut group = two(32);
    group.iter_mut().for_each(|report| report.air_kbit = 0);
    let verdict = decide(&rules(Function::Share), &group);
    assert_eq!((why(&verdict, 0), treatment(&verdict, 0)), (Why::AirUnknown, Treatment::default()));
}

#[test]
fn the_air_is_full_if_packets_of_half_of_the_hungry_wait_and_of_two_at_least() {
    let full = |waits_ms: &[u32]| {
        let group = (1..).zip(waits_ms).map(|(n, waits_ms)| {
            let mut report = report(n);
            report.flows[0].srtt_us = 100_000 + waits_ms * 1000;
            report.flows[0].goodput_kbit = 10_000;
            report
        });
        is_full(&rules(Function::Share), &group.collect::<Vec<_>>())
    };
    assert!(!full(&[40, 2]), "that may be its own link");
    assert!(full(&[40, 40]) && full(&[40, 40, 2, 2]));
    assert!(!full(&[40, 40, 2, 2, 2]));
}

#[test]
fn a_new_connection_has_its_row_of_the_table_at_once() {
    let mut group = two(32);
    group[0].class = 20;
    let openings = openings(&rules(Function::Table), &group, &group[0]);
    let at = |rtt_us: u32| openings.iter().find(|o| (o.from_us..=o.to_us).contains(&rtt_us));
    let caps = [(0, 20), (31_999, 20), (32_000, 30), (63_999, 30), (300_000, 100)];
    for (rtt_us, cap) in caps {
        assert_eq!(at(rtt_us).unwrap().treatment.cap, Some(cap), "{rtt_us} us");
    }
}

fn with_unstable(which: &[usize], rtt_ms: u32) -> Vec<Report> {
    let mut group = two(rtt_ms);
    for &n in which {
        group[n].flows[0].unstable = true;
        group[n].flows[0].unsteady = 60;
    }
    group
}

#[test]
fn stabilise_gives_steady_to_the_only_unstable_one() {
    let verdict = decide(&rules(Function::Stabilise), &with_unstable(&[1], 256));
    assert_eq!(treatment(&verdict, 0), Treatment::default());
    assert_eq!(treatment(&verdict, 1).algorithm, Algorithm::Steady);
    assert_eq!(why(&verdict, 1), Why::OnlyUnstable { unsteady: 60 });
}

#[test]
fn stabilise_leaves_flows_alone_that_are_stable_near_or_many() {
    let decided = |group: &[Report]| {
        let verdict = decide(&rules(Function::Stabilise), group);
        assert!(verdict.decisions.iter().flat_map(|d| &d.flows).all(|c| c.treatment.is_none()));
        why(&verdict, 1)
    };
    assert_eq!(decided(&with_unstable(&[], 256)), Why::Stable);
    assert_eq!(decided(&with_unstable(&[1], 20)), Why::ShortPath { min_rtt_us: 20_000 });
    assert_eq!(decided(&with_unstable(&[0, 1], 256)), Why::OthersUnstableToo { unstable: 2 });
    let mut three = with_unstable(&[1], 256);
    three.push(report(3));
    assert_eq!(decided(&three), Why::TooMany { hungry: 3 });
}

/// Thesis, table 1, row by row.
#[test]
fn table_is_table_1_of_the_thesis() {
    let fast = [20, 20, 20, 20, 20, 20, 30, 55, 55, 100];
    let slow = [70, 70, 70, 70, 70, 100, 100, 100, 100, 100];
    for (n, rtt) in [0, 1, 2, 4, 8, 16, 32, 64, 128, 256].into_iter().enumerate() {
        let mut group = two(rtt);
        group.iter_mut().for_each(|report| report.flows[0].min_rtt_us += 300);
        group[1].class = 20;
        let verdict = decide(&rules(Function::Table), &group);
        let expected = Treatment { algorithm: Algorithm::Steady, cap: Some(slow[n]) };
        assert_eq!(treatment(&verdict, 0), expected, "slow, {rtt} ms");
        let expected = Treatment { algorithm: Algorithm::Default, cap: Some(fast[n]) };
        assert_eq!(treatment(&verdict, 1), expected, "fast, {rtt} ms");
    }
}

#[test]
fn a_rules_file_may_change_any_number_and_keeps_the_others() {
    let text = "function = \"table\"\n[share]\nfew = 9\n[[table]]\nname = \"all\"\nclass = 0\n\
                rows = [{ rtt_ms = 10, cap = 12 }]\n";
    let rules = Rules::from_toml(text).unwrap();
    assert_eq!((rules.function, rules.share.few, rules.share.queue_ms), (Function::Table, 9, 30));
    let verdict = decide(&rules, &two(50));
    assert_eq!(treatment(&verdict, 0).cap, Some(12));
    let verdict = decide(&rules, &two(9));
    assert_eq!(why(&verdict, 0), Why::NoRow);
}

#[test]
fn the_printed_rules_are_those_in_force() {
    let rules = Rules::default();
    let printed = rules.to_toml();
    assert_eq!(Rules::from_toml(&printed), Ok(rules.clone()));
    let written_otherwise = format!("# mine\n{}", printed.replace(" = ", "="));
    assert_eq!(Rules::from_toml(&written_otherwise).unwrap().digest(), rules.digest());
}

#[test]
fn a_bad_rules_file_is_named_with_what_would_be_right() {
    let error = |text: &str| Rules::from_toml(text).unwrap_err();
    assert!(error("function = \"shar\"").contains("share"), "{}", error("function = \"shar\""));
    assert!(error("[share]\nqueue = 3").contains("line 2"), "{}", error("[share]\nqueue = 3"));
    assert!(error("[share]\nleast_cap = 1").contains("from 2"));
    assert!(error("[share]\nair_mbit = -1").contains("air_mbit"));
    assert!(error("[share]\ngrowth = 1").contains("0 for no limit"));
    assert!(error("[stability]\nstable_below = 90").contains("back and forth"));
    assert!(error("function = \"table\"\ntable = []").contains("[[table]]"));
    let rows = "[[table]]\nname = \"x\"\nclass = 0\nrows = [{ rtt_ms = 5 }, { rtt_ms = 5 }]";
    assert!(error(rows).contains("grow"));
}
