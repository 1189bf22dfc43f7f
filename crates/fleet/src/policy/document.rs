//! Whether a text is a policy: what can be said of it without a host. `transom tune` looks at the
//! values, too, and knows which algorithms a kernel has.

use anyhow::{Context, Result, bail, ensure};
use toml::{Table, Value};

const GUARD: &[&str] = &["on", "loss", "inflation", "delay", "share", "after", "retry"];
const STABILITY: &[&str] = &["falls", "within"];
const RULE: &[&str] = &["name", "match", "action"];
const MATCH: &[&str] =
    &["cgroup", "program", "port", "remote", "interface", "rtt", "terminals", "stability"];
const ACTION: &[&str] = &["algorithm", "target", "cap", "backoff", "gain", "initial_window"];
/// As many as the kernel's side has room for.
const MOST_RULES: usize = 32;

/// # Errors
/// It is no TOML, has a key that no policy has, or no rule.
pub fn check(text: &str) -> Result<()> {
    let file: Table = toml::from_str(text)?;
    known("the file", &file, &["hold", "guard", "stability", "rule"])?;
    for (name, keys) in [("guard", GUARD), ("stability", STABILITY)] {
        if let Some(value) = file.get(name) {
            known(&format!("[{name}]"), table(value, &format!("[{name}]"))?, keys)?;
        }
    }
    let rules: &[Value] = match file.get("rule") {
        None => &[],
        Some(Value::Array(rules)) => rules,
        Some(_) => bail!("rules are written as [[rule]], with two brackets"),
    };
    ensure!(!rules.is_empty(), "the policy has no rule: add [[rule]] with match and action");
    ensure!(rules.len() <= MOST_RULES, "{} rules: the most is {MOST_RULES}", rules.len());
    for (rule, at) in rules.iter().zip(1..) {
        let named = format!("rule {at}");
        let rule = table(rule, &named)?;
        known(&named, rule, RULE)?;
        let action = rule.get("action").with_context(|| format!("{named} has no action"))?;
        let inside = format!("the action of {named}");
        known(&inside, table(action, &inside)?, ACTION)?;
        if let Some(matching) = rule.get("match") {
            let inside = format!("the match of {named}");
            known(&inside, table(matching, &inside)?, MATCH)?;
        }
    }
    Ok(())
}

fn table<'a>(value: &'a Value, named: &str) -> Result<&'a Table> {
    value.as_table().with_context(|| format!("{named} is no table"))
}

fn known(named: &str, table: &Table, keys: &[&str]) -> Result<()> {
    for key in table.keys() {
        ensure!(keys.contains(&key.as_str()), "{named} has no key '{key}': {}", keys.join(", "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANUAL: &str = include_str!("../../../../docs/policy.md");

    #[test]
    fn the_policy_of_the_manual_is_one_and_all_its_keys_are_known() {
        let example = MANUAL.split("```toml").nth(1).and_then(|rest| rest.split("```").next());
        check(example.unwrap()).unwrap();
        let keys = |heading: &str| {
            let section = MANUAL.split(&format!("\n## {heading}\n")).nth(1).unwrap();
            let section = section.split("\n## ").next().unwrap();
            let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
            rows.map(|(key, _)| key.to_owned()).collect::<Vec<_>>()
        };
        for (heading, known) in [("match", MATCH), ("action", ACTION)] {
            let told = keys(heading);
            assert!(told.len() >= 6, "{heading}: {told:?}");
            for key in told {
                assert!(known.contains(&key.as_str()), "{heading}: {key}");
            }
        }
    }

    #[test]
    fn what_is_no_policy_is_named() {
        for (text, words) in [
            ("[[rule]\n", "TOML parse error at line 1"),
            ("", "has no rule"),
            ("[rule]\naction = {}\n", "two brackets"),
            ("[[rule]]\n", "rule 1 has no action"),
            ("[[rule]]\naction = { window = 3 }\n", "the action of rule 1 has no key 'window'"),
            ("[[rule]]\naction = { cap = 3 }\nmatch = 3\n", "the match of rule 1 is no table"),
            ("retry = \"3s\"\n", "the file has no key 'retry'"),
            ("guard = { los = 1 }\n", "[guard] has no key 'los': on, loss"),
        ] {
            let said = format!("{:#}", check(text).unwrap_err());
            assert!(said.contains(words), "{text}: {said}");
        }
    }
}
