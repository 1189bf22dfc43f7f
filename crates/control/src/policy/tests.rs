use proptest::prelude::*;
use transom_machine::namespace;

use super::*;
use crate::contract::Parameters;
use crate::policy::Range;
use crate::scope::Scope;

#[test]
fn a_policy_for_elsewhere_may_name_any_algorithm_and_is_checked_all_the_same() {
    let text = "[[rule]]\nmatch = {}\naction = { algorithm = \"vegas9\", cap = 20 }\n";
    let rule = Policy::parse_for_elsewhere(text).expect("a policy").rules.remove(0);
    assert_eq!(rule.treatment.algorithm.as_deref(), Some("vegas9"));
    Policy::parse(text, &algorithms()).expect_err("the control: it is not here");
    let wrong = text.replace("cap = 20", "cap = 0");
    Policy::parse_for_elsewhere(&wrong).expect_err("a cap of nothing");
}

fn algorithms() -> Vec<String> {
    ["reno", "cubic", "bbr", "steady"].map(String::from).into()
}

fn parse(text: &str) -> Result<Policy, Vec<Problem>> {
    Policy::parse(text, &algorithms())
}

fn rule(text: &str) -> Rule {
    parse(text).expect("a good policy").rules.remove(0)
}

#[test]
fn a_rule_says_which_connections_and_what() {
    let rule = rule(
        r#"
[[rule]]
name = "far away"
match = { program = "iperf", port = [5201, 5001], remote = "10.0.0.0/8", rtt = "64ms..", terminals = "2..4", stability = "unstable" }
action = { algorithm = "steady", target = 70, cap = 100, backoff = 0, gain = 1.5, initial_window = 10 }
"#,
    );
    assert_eq!(rule.line, 2);
    assert_eq!(rule.matching.programs, ["iperf"]);
    assert_eq!(rule.matching.ports, [5201, 5001]);
    assert_eq!(rule.matching.rtt_us, Some(Range { least: 64_000, most: u32::MAX }));
    assert_eq!(rule.matching.terminals, Some(Range { least: 2, most: 4 }));
    let parameters = Parameters { target: 70, cap: 100, backoff: 0, gain: 1536 };
    assert_eq!(rule.treatment.parameters, parameters);
    assert_eq!(rule.treatment.initial_window, 10);
}

#[test]
fn a_target_is_not_given_below_32_ms_unless_the_rule_says_so() {
    let silent = rule("[[rule]]\naction = { algorithm = \"steady\", target = 70 }");
    assert_eq!(silent.matching.rtt_us, Some(Range { least: 32_000, most: u32::MAX }));
    let told =
        "[[rule]]\nmatch = { rtt = \"0ms..\" }\naction = { algorithm = \"steady\", target = 70 }";
    assert_eq!(rule(told).matching.rtt_us, Some(Range { least: 0, most: u32::MAX }));
    let found = rule("[[rule]]\naction = { algorithm = \"steady\" }");
    assert_eq!(found.matching.rtt_us, None, "it finds what the path holds");
    let other = rule("[[rule]]\naction = { algorithm = \"cubic\" }");
    assert_eq!(other.matching.rtt_us, None);
}

#[test]
fn the_backoff_is_an_eighth_and_the_gain_a_segment_where_nothing_is_said() {
    let parameters = rule("[[rule]]\naction = { cap = 20 }").treatment.parameters;
    assert_eq!((parameters.backoff, parameters.gain, parameters.cap), (128, 1024, 20));
}

#[test]
fn an_interface_is_one_of_the_own_namespace_where_none_is_named() {
    let own = namespace::own().unwrap();
    let netns_of = |text| parse(text).unwrap().compile(&Scope::default()).unwrap().raw[0].netns;
    let action = "action = { cap = 20 }";
    let over_loopback = format!("[[rule]]\nmatch = {{ interface = \"lo\" }}\n{action}");
    assert_eq!(netns_of(&over_loopback), own, "elsewhere this number is another interface's");
    assert_eq!(netns_of(&format!("[[rule]]\n{action}")), 0, "in all of them");
}

#[test]
fn a_gain_needs_a_target() {
    refused("[[rule]]\naction = { algorithm = \"steady\", gain = 2 }", 2, "give a target, too");
}

/// Line, and a word that the message must have.
fn refused(text: &str, line: usize, word: &str) {
    let problems = parse(text).expect_err(text);
    let first = &problems[0];
    assert_eq!(first.line, line, "{first}");
    assert!(first.to_string().contains(word), "{first}");
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    refused("", 0, "no rule");
    refused("[[rule]]\naction = { }", 1, "does nothing");
    refused("[[rule]]\naction = { cap = 1 }", 2, "cap = 1");
    refused("[[rule]]\naction = { algorithm = \"vegas\" }", 2, "modprobe tcp_vegas");
    refused("[[rule]]\naction = { algorithm = \"cubic\", target = 9 }", 2, "parameter of steady");
    refused("[[rule]]\n[rule.match]\nport = 70000\n[rule.action]\ncap = 9", 3, "1 to 65535");
    refused("[[rule]]\nmatch = { rtt = \"32\" }\naction = { cap = 9 }", 2, "unit");
    refused("[[rule]]\nmatch = { colour = 1 }\naction = { cap = 9 }", 2, "colour");
    refused("[[rule]]\nmatch = { remote = \"10.0.0.0/40\" }\naction = { cap = 9 }", 2, "remote");
    refused("[guard]\nloss = 7.0\n[[rule]]\naction = { cap = 9 }", 2, "loss = 7");
    refused("[[rule]]\naction = { cap = 9 }\n[[rule]]\naction = { cap = 8 }", 3, "never reached");
    refused(
        "[[rule]]\naction = { algorithm = \"steady\", target = 90, cap = 80 }",
        2,
        "above the cap",
    );
    // A connection would begin with more than the limit that it is to have.
    refused("[[rule]]\naction = { cap = 9, initial_window = 10 }", 2, "10 is above the cap 9");
    rule("[[rule]]\naction = { cap = 10, initial_window = 10 }");
}

#[test]
fn a_value_of_the_wrong_type_is_explained_in_words_of_the_file() {
    refused(
        "[[rule]]\nmatch = { port = true }\naction = { cap = 9 }",
        2,
        "expected a whole number",
    );
    refused("[[rule]]\nmatch = { program = 5 }\naction = { cap = 9 }", 2, "expected a text");
    refused("[[rule]]\nmatch = { terminals = [] }\naction = { cap = 9 }", 2, "expected a number");
    let cap = "cannot be the text \"9\": give a whole number";
    refused("[[rule]]\naction = { cap = \"9\" }", 2, cap);
    for text in ["match = { port = \"x\" }", "match = { remote = 1 }", "match = { terminals = {} }"]
    {
        let problems = parse(&format!("[[rule]]\n{text}\naction = {{ cap = 9 }}")).unwrap_err();
        assert!(!problems[0].to_string().contains("untagged"), "{}", problems[0]);
    }
}

#[test]
fn all_problems_are_reported_at_once_in_the_order_of_the_lines() {
    let text = "[guard]\nretry = \"x\"\n[[rule]]\naction = { cap = 0 }\n";
    let lines: Vec<usize> = parse(text).unwrap_err().iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [2, 4]);
}

#[test]
fn more_rules_than_the_kernel_takes_are_refused() {
    let text = "[[rule]]\nmatch = { port = 1 }\naction = { cap = 9 }\n".repeat(33);
    refused(&text, 97, "33 rules");
}

const GOOD: &str = r#"hold = "10s"

[guard]
on = true
loss = 0.05
inflation = 3.0
after = "2s"
retry = "30s"

[stability]
falls = 2
within = "10s"

[[rule]]
name = "slow and far"
match = { program = ["iperf", "iperf3"], rtt = "32ms..64ms", terminals = "2..4", stability = "unstable" }
action = { algorithm = "steady", target = 70, cap = 100, backoff = "1/8", gain = 1.5 }

[[rule]]
match = { remote = ["10.0.0.0/8", "fd00::/8"], port = [5201, 80], interface = "eth0", cgroup = "/a" }
action = { cap = 20, initial_window = 10 }
"#;

/// What a slip of the hand does to a file: a stretch of it is replaced.
fn mutated(at: usize, length: usize, with: &str) -> String {
    let chars: Vec<char> = GOOD.chars().collect();
    let at = at % chars.len();
    let end = (at + length).min(chars.len());
    chars[..at].iter().copied().chain(with.chars()).chain(chars[end..].iter().copied()).collect()
}

#[test]
fn the_policy_that_is_mutated_is_good() {
    assert_eq!(parse(GOOD).expect("a good policy").rules.len(), 2);
}

#[test]
fn a_long_name_in_any_alphabet_is_refused_and_not_cut_in_a_letter() {
    let text = "[[rule]]\nmatch = { program = \"ブラウザブラウザ\" }\naction = { cap = 9 }";
    refused(text, 2, "write ブラウザブ");
    refused("[[rule]]\nmatch = { program = \"\" }\naction = { cap = 9 }", 2, "name");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn whatever_is_wrong_has_a_line_of_the_file_and_a_remedy(
        at in any::<usize>(), length in 0usize..12,
        with in prop_oneof![
            "\\PC{0,4}",
            "[0-9.\\-\"{}\\[\\]=,#\n]{0,3}",
            "(nan|inf|-1|0|1e99|99999999999999999999|\\.\\.|\"\"|\\[\\]|true|é{16})",
        ],
    ) {
        let text = mutated(at, length, &with);
        for problem in parse(&text).err().unwrap_or_default() {
            let lines = text.matches('\n').count() + 1;
            prop_assert!(problem.line <= lines, "{} of {}: {}", problem.line, lines, problem);
            let whole = problem.what.contains("no rule");
            prop_assert!(problem.line > 0 || whole, "{problem}");
            let said = problem.to_string();
            let remedies =
                ["give", "write", "such as", "add", "move", "raise", "there are", "see docs", "most is"];
            prop_assert!(remedies.iter().any(|word| said.contains(word)), "{said}");
        }
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC{0,200}") {
        let _ = parse(&text);
    }

    #[test]
    fn no_values_make_the_parser_panic(
        cap in any::<i64>(), gain in any::<f64>(), rtt in "\\PC{0,12}", share in "\\PC{0,8}",
    ) {
        let text = format!(
            "[[rule]]\nmatch = {{ rtt = {rtt:?} }}\naction = {{ cap = {cap}, gain = {gain:?}, backoff = {share:?} }}"
        );
        let _ = parse(&text);
    }

    #[test]
    fn every_good_window_comes_through_as_it_was_written(
        cap in 100u32..=1_000_000, target in 2u32..=100, backoff in 0u32..=8,
    ) {
        let text = format!(
            "[[rule]]\naction = {{ algorithm = \"steady\", cap = {cap}, target = {target}, backoff = \"{backoff}/8\" }}"
        );
        let parameters = rule(&text).treatment.parameters;
        prop_assert_eq!(parameters.cap, cap);
        prop_assert_eq!(parameters.target, target);
        prop_assert_eq!(parameters.backoff, backoff * 128);
    }
}
