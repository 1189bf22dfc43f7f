use super::*;
use crate::experiment::parse;

const FILE: &str = r#"
title = "t"
source = "s"
question = "q"
duration_s = 10
repeats = 2

[hosts.a]
profile = "nexus-s"
[hosts.b]
[air]

[flows.up]
from = "a"
to = "b"

[quick]
duration_s = 2
repeats = 1
sweep.path.rtt_ms = [64]
sweep.loss = ["some"]

[sweep]
path.rtt_ms = [0, 64.0]
loss = [
  { name = "none", set = { path.up.loss = 0 } },
  { name = "some", set = { path.up.loss = 0.002, hosts.a.algorithm = "reno" } },
]
"#;

fn loaded(text: &str) -> Loaded {
    parse("x.toml".as_ref(), text.to_owned()).unwrap()
}

fn refused(from: &str, to: &str) -> String {
    assert!(FILE.contains(from), "{from}");
    parse("x.toml".as_ref(), FILE.replacen(from, to, 1)).unwrap_err().to_string()
}

#[test]
fn all_combinations_are_points_and_the_last_key_changes_fastest() {
    let loaded = loaded(FILE);
    let points = points(&loaded, false);
    let slugs: Vec<&str> = points.iter().map(|point| point.slug.as_str()).collect();
    assert_eq!(
        slugs,
        ["loss-none_rtt-ms-0", "loss-none_rtt-ms-64", "loss-some_rtt-ms-0", "loss-some_rtt-ms-64"]
    );
    let last = &points[3].experiment;
    assert_eq!((last.path.rtt_ms, last.path.up.loss), (64.0, 0.002));
    assert_eq!(last.hosts["a"].algorithm.as_deref(), Some("reno"));
    assert_eq!(points[0].experiment.hosts["a"].algorithm, None);
    assert_eq!(points[3].values["loss"].as_str(), Some("some"));
}

#[test]
fn a_sweep_of_more_points_than_could_ever_run_is_refused_before_it_is_built() {
    let values = |number| (0..number).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let swept = |number| {
        let keys = ["hosts.a.gso_max_segs", "flows.up.start_s", "hosts.b.initial_window"];
        let line = |key: &&str| format!("{key} = [{}]\n", values(number));
        let text = FILE.replace(
            "\nloss = [",
            &format!("\n{}loss = [", keys.iter().map(line).collect::<String>()),
        );
        parse("x.toml".as_ref(), text).unwrap_err().to_string()
    };
    assert!(swept(1000).contains("`sweep`: makes 4000000000 points"), "{}", swept(1000));
    assert!(!swept(10).contains("points"), "{}", swept(10));
}

#[test]
fn quick_runs_fewer_and_shorter_points_with_the_same_names() {
    let loaded = loaded(FILE);
    let quick = points(&loaded, true);
    assert_eq!(quick.len(), 1);
    assert_eq!(quick[0].slug, "loss-some_rtt-ms-64");
    assert_eq!((quick[0].experiment.duration_s, quick[0].experiment.repeats), (2.0, 1));
}

#[test]
fn a_profile_goes_under_what_the_sweep_sets() {
    let loaded = loaded(&FILE.replace("\nloss = [", "\nhosts.a.driver.rate_mbit = [3]\nloss = ["));
    let driver = points(&loaded, false)[0].experiment.hosts["a"].driver.clone().unwrap();
    let profile = loaded.experiment.hosts["a"].driver.clone().unwrap();
    assert_eq!(driver.rate_mbit, 3.0);
    assert_eq!(driver.queue_packets, profile.queue_packets);
    assert_ne!(profile.rate_mbit, 3.0);
}

#[test]
fn a_profile_can_be_swept() {
    let loaded =
        loaded(&FILE.replace("\nloss = [", "\nhosts.a.profile = ['ht-03a', 'laptop']\nloss = ["));
    let rates: Vec<Option<f64>> = points(&loaded, false)
        .iter()
        .map(|point| point.experiment.hosts["a"].driver.as_ref().map(|driver| driver.rate_mbit))
        .collect();
    assert!(rates[0].is_some() && rates.contains(&None), "{rates:?}");
}

#[test]
fn seeds_differ_by_point_and_repeat_and_stay_when_the_sweep_grows() {
    let before = loaded(FILE);
    let after = loaded(&FILE.replacen("[0, 64.0]", "[0, 1, 64]", 1));
    let seeds = |loaded: &Loaded| -> BTreeMap<(String, u32), u64> {
        let both = |point: &Point| [1, 2].map(|n| ((point.slug.clone(), n), point.seed(n)));
        points(loaded, false).iter().flat_map(both).collect()
    };
    let (before, after) = (seeds(&before), seeds(&after));
    let mut distinct: Vec<&u64> = after.values().collect();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), 12);
    assert!(before.iter().all(|(run, seed)| after[run] == *seed));
}

#[test]
fn along_a_paired_key_all_meet_the_same_chance() {
    let loaded = loaded(&FILE.replacen("repeats", "paired = [\"loss\"]\nrepeats", 1));
    let seed = |loss: &str, rtt: i64| {
        let is = |point: &&Point| {
            same(&point.values["loss"], &loss.into())
                && same(&point.values["path.rtt_ms"], &rtt.into())
        };
        points(&loaded, false).iter().find(is).unwrap().seed(1)
    };
    assert_eq!(seed("none", 64), seed("some", 64));
    assert_ne!(seed("none", 64), seed("none", 0));
}

#[test]
fn a_paired_key_must_be_swept() {
    let text = refused("repeats", "paired = [\"los\"]\nrepeats");
    assert!(text.contains("the sweep has no key \"los\""), "{text}");
}

#[test]
fn another_first_seed_makes_other_seeds() {
    let (one, two) = (loaded(FILE), loaded(&FILE.replacen("repeats", "seed = 2\nrepeats", 1)));
    assert_ne!(points(&one, false)[0].seed(1), points(&two, false)[0].seed(1));
}

#[test]
fn without_a_sweep_there_is_one_point() {
    let text = FILE.split("[quick]").next().unwrap();
    let loaded = loaded(text);
    assert_eq!(points(&loaded, false).len(), 1);
    assert_eq!(points(&loaded, true)[0].slug, "only");
}

#[test]
fn points_that_differ_only_in_odd_characters_keep_folders_of_their_own() {
    let cases = "\nc = [{ name = 'a b', set = {} }, { name = 'a:b', set = {} }]\nloss = [";
    let loaded = loaded(&FILE.replacen("\nloss = [", cases, 1).replace("[sweep]", "[sweep]\n"));
    let mut slugs: Vec<&str> = points(&loaded, false).iter().map(|p| p.slug.as_str()).collect();
    slugs.sort();
    slugs.dedup();
    assert_eq!(slugs.len(), 8);
}

#[test]
fn swept_keys_that_name_nothing_are_told_with_their_line() {
    assert_eq!(
        refused("path.rtt_ms = [0", "pth.rtt_ms = [0"),
        "x.toml:24: `sweep.pth.rtt_ms`: names nothing: no `pth` can be swept; such a key begins \
         with path, air, hosts, flows, duration_s\n\
         x.toml:20: `quick.sweep.path.rtt_ms`: the sweep has no such key; did you mean `pth.rtt_ms`?"
    );
    assert_eq!(
        refused("path.rtt_ms = [0", "path.rtt_mss = [0").lines().last().unwrap(),
        "x.toml:20: `quick.sweep.path.rtt_ms`: the sweep has no such key; did you mean \
         `path.rtt_mss`?"
    );
    let text = refused("hosts.a.algorithm = \"reno\"", "hosts.ab.algorithm = \"reno\"");
    assert_eq!(
        text,
        "x.toml:27: `sweep.loss.1.set.hosts.ab.algorithm`: names nothing: there is no `hosts.ab`; \
         did you mean `a`?"
    );
    let text = refused("path.up.loss = 0 }", "path.up.los = 0 }");
    assert_eq!(
        text,
        "x.toml:25: `sweep.loss`: at loss = none, path.rtt_ms = 0: there is no such key as `los`; \
         did you mean `loss`?\nx.toml:25: `sweep.loss`: at loss = none, path.rtt_ms = 64: there is \
         no such key as `los`; did you mean `loss`?"
    );
}

#[test]
fn impossible_values_of_a_sweep_are_told_with_the_point() {
    let text = refused("path.up.loss = 0.002", "path.up.loss = 2");
    assert_eq!(
        text.lines().next().unwrap(),
        "x.toml:25: `sweep.loss`: at loss = some, path.rtt_ms = 0: `path.up.loss`: 2 is \
         impossible; give a number from 0 to 1"
    );
}

#[test]
fn empty_double_and_mixed_lists_are_refused() {
    assert!(refused("[0, 64.0]", "[]").contains("x.toml:24: `sweep.path.rtt_ms`: no values;"));
    assert!(
        refused("[0, 64.0]", "[0, 64, 0.0]").contains("`sweep.path.rtt_ms`: 0 stands there twice")
    );
    assert!(refused("{ name = \"none\",", "3, { name = \"none\",").contains("some are not"));
    assert!(refused("[0, 64.0]", "64").contains("must be a list of values, such as [64]"));
    assert!(
        refused("sweep.loss = [\"some\"]", "sweep.loss = [\"sme\"]")
            .contains("did you mean `some`?")
    );
    assert!(refused("name = \"none\", ", "").contains("a case without `name`"));
}

#[test]
fn what_is_skipped_is_no_point() {
    let skip = "[[skip]]\nloss = \"some\"\npath.rtt_ms = 0\n";
    let loaded = loaded(&format!("{FILE}{skip}"));
    let slugs: Vec<_> = points(&loaded, false).iter().map(|point| point.slug.as_str()).collect();
    assert_eq!(slugs, ["loss-none_rtt-ms-0", "loss-none_rtt-ms-64", "loss-some_rtt-ms-64"]);
    assert_eq!(points(&loaded, true).len(), 1);
}

#[test]
fn a_skip_must_mean_something_and_leave_something() {
    let refused = |skip: &str| {
        let text = format!("{FILE}[[skip]]\n{skip}\n");
        parse("x.toml".as_ref(), text).map(drop).unwrap_err().to_string()
    };
    assert!(refused("loss = \"much\"").contains("`skip.0.loss`: `loss` never is much"));
    assert!(refused("los = \"some\"").contains("did you mean `loss`?"));
    assert!(refused("").contains("leaves nothing to run"));
}

const CONTROLLED: &str = r#"
[[claims]]
text = "it is fast at RTT 64 with loss"
test = "value"
of = { metric = "sum_mbit", where = { path.rtt_ms = 64, loss = "some" } }
at_least = 1
fails_under = ["cubic in the place of reno"]
[[controls]]
name = "cubic in the place of reno"
set = { hosts.a.algorithm = "cubic" }
where = { loss = "some" }
repeats = 1
"#;

/// The points that controls change.
fn controls(loaded: &Loaded) -> Vec<&Point> {
    points(loaded, false).iter().filter(|point| point.control.is_some()).collect()
}

#[test]
fn a_control_changes_the_points_that_its_claims_look_at_and_no_others() {
    let loaded = loaded(&(FILE.to_owned() + CONTROLLED));
    let [control] = controls(&loaded)[..] else { panic!("one point: RTT 64 with loss") };
    assert_eq!(control.experiment.hosts["a"].algorithm.as_deref(), Some("cubic"));
    assert_eq!(control.experiment.repeats, 1);
    let folder = "controls/cubic-in-the-place-of-reno/loss-some_rtt-ms-64";
    assert_eq!(control.folder(), Path::new(folder));
    assert_eq!(
        control.label(),
        "control \"cubic in the place of reno\", loss = some, path.rtt_ms = 64"
    );
    let plain = points(&loaded, false).iter().find(|point| point.values == control.values).unwrap();
    assert_eq!(plain.experiment.hosts["a"].algorithm.as_deref(), Some("reno"));
    assert_eq!(plain.seed(1), control.seed(1), "both meet the same chance");
}

#[test]
fn a_control_may_remove_what_a_profile_or_the_sweep_gave() {
    let removes = CONTROLLED.replace(
        r#"set = { hosts.a.algorithm = "cubic" }"#,
        r#"unset = ["hosts.a.algorithm", "hosts.a.driver", "hosts.a.sysctl.ipv4.tcp_recovery"]"#,
    );
    let loaded = loaded(&(FILE.to_owned() + &removes));
    let host = &controls(&loaded)[0].experiment.hosts["a"];
    assert_eq!((host.algorithm.as_deref(), &host.driver), (None, &None));
    assert_eq!(host.sysctl.keys().collect::<Vec<_>>(), ["ipv4.tcp_early_retrans"]);
}

#[test]
fn controls_that_say_nothing_are_refused_with_the_remedy() {
    let refused = |from: &str, to: &str| {
        assert!(CONTROLLED.contains(from), "{from}");
        let text = FILE.to_owned() + &CONTROLLED.replacen(from, to, 1);
        parse("x.toml".as_ref(), text).unwrap_err().to_string()
    };
    let set = r#"set = { hosts.a.algorithm = "cubic" }"#;
    let said = refused(set, "");
    assert!(said.contains("changes nothing; give `set` or `unset`"), "{said}");
    let said = refused(set, "set = { hosts.c.algorithm = 'cubic' }");
    assert!(said.contains("there is no `hosts.c`"), "{said}");
    let said = refused(set, "unset = ['hosts.a.policy']");
    assert!(said.contains("there is no `hosts.a.policy` to remove at loss = some"), "{said}");
    let said = refused(set, "set = { hosts.a.algorithms = 'cubic' }");
    assert!(said.contains("`controls.0`") && said.contains("algorithms"), "{said}");
    let said = refused(r#"where = { loss = "some" }"#, r#"where = { loss = "none" }"#);
    assert!(said.contains("changes no run that the claim looks at"), "{said}");
    let said = refused(r#"fails_under = ["cubic in the place of reno"]"#, "");
    assert!(said.contains("no claim must fail under it; add `fails_under"), "{said}");
    let said =
        refused(r#"fails_under = ["cubic in the place"#, r#"fails_under = ["cubic in place"#);
    assert!(said.contains("there is no control") && said.contains("did you mean"), "{said}");
    let said = refused("repeats = 1", "repeats = 0");
    assert!(said.contains("0 is impossible"), "{said}");
}
