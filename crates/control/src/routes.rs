//! The lever where there is no BPF: metrics of routes, `congctl` and `initcwnd`.
//! They reach new connections only, by prefix and interface. A third, `cwnd lock`,
//! would be the clamp, but tcp_init_metrics takes it from the cache of metrics:
//! the first connection to an address does not get it, and it outlives the route.
//! Each is a route of our own beside the one it copies,
//! under a protocol number of our own, so that taking all back needs no notes.

use std::fmt;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use transom_event::Prefix;
use transom_machine::namespace;

use crate::policy::{Match, Policy, Rule};
use crate::scope::Scope;

/// `rtm_protocol` of our routes: not given to anybody (rtnetlink(7), iproute2's rt_protos).
pub const PROTOCOL: u8 = 84;

/// One `ip route` that will be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpRoute(Vec<String>);

impl fmt::Display for IpRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ip {}", self.0.join(" "))
    }
}

/// What a policy comes to in routes.
#[derive(Debug, Default)]
pub struct Plan {
    netns: Option<String>,
    pub commands: Vec<IpRoute>,
    /// What routes cannot do.
    pub notes: Vec<String>,
}

impl Plan {
    /// # Errors
    /// When there is no `ip`, or no route to a prefix.
    pub fn of(policy: &Policy, scope: &Scope) -> Result<Plan> {
        let mut plan = Plan { netns: scope.netns.clone(), ..Plan::default() };
        // The first rule wins: what it has is not given to a later one.
        let mut given: Vec<String> = Vec::new();
        for (at, rule) in policy.rules.iter().enumerate() {
            let lacks = lacks(rule);
            if !lacks.is_empty() {
                let lacks = lacks.join(", ");
                plan.notes.push(format!("rule {} is left out: routes have no {lacks}", at + 1));
                continue;
            }
            for prefix in prefixes(&rule.matching) {
                let routes = routes_to(&prefix, rule.matching.interface.as_deref(), &plan.netns)?;
                for route in routes {
                    let key = format!("{prefix} {}", text(&route, "dev"));
                    if given.contains(&key) {
                        continue;
                    }
                    given.push(key);
                    plan.commands.push(command(&prefix, &route, rule));
                }
            }
        }
        Ok(plan)
    }

    /// # Errors
    /// When a route cannot be added; those before it are then removed.
    pub fn install(&self) -> Result<()> {
        let scope = Scope { netns: self.netns.clone(), inode: 0 };
        clear(&scope)?;
        for command in &self.commands {
            let words: Vec<&str> = command.0.iter().map(String::as_str).collect();
            if let Err(error) = ip(&words, &self.netns) {
                clear(&scope)?;
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Removes every route of ours.
///
/// # Errors
/// When `ip` fails.
pub fn clear(scope: &Scope) -> Result<()> {
    for family in ["-4", "-6"] {
        let protocol = PROTOCOL.to_string();
        ip(&[family, "route", "flush", "proto", &protocol], &scope.netns)?;
    }
    Ok(())
}

/// Our routes, as `ip` shows them.
///
/// # Errors
/// When `ip` fails.
pub fn installed(scope: &Scope) -> Result<Vec<String>> {
    let protocol = PROTOCOL.to_string();
    let mut lines = Vec::new();
    for family in ["-4", "-6"] {
        let text = ip(&[family, "route", "show", "proto", &protocol], &scope.netns)?;
        lines.extend(text.lines().map(|line| line.trim().to_owned()));
    }
    Ok(lines)
}

/// Keys of a rule that no route knows.
fn lacks(rule: &Rule) -> Vec<&'static str> {
    let matching = &rule.matching;
    [
        (rule.treatment.is_aggressive(), "steady"),
        (rule.treatment.parameters.cap > 0, "cap"),
        (matching.cgroup.is_some(), "cgroup"),
        (!matching.programs.is_empty(), "program"),
        (!matching.ports.is_empty(), "port"),
        (matching.rtt_us.is_some(), "rtt"),
        (matching.terminals.is_some(), "terminals"),
        (matching.stability.is_some(), "stability"),
    ]
    .into_iter()
    .filter_map(|(asked, key)| asked.then_some(key))
    .collect()
}

fn prefixes(matching: &Match) -> Vec<String> {
    match matching.prefixes.is_empty() {
        true => vec![String::from("default")],
        false => matching.prefixes.iter().map(Prefix::to_string).collect(),
    }
}

/// The routes that packets to a prefix take now, ours left out.
fn routes_to(prefix: &str, interface: Option<&str>, netns: &Option<String>) -> Result<Vec<Value>> {
    let family = if prefix.contains(':') { "-6" } else { "-4" };
    let address = match prefix.split('/').next() {
        Some("default") | None => "0.0.0.0/0",
        Some(address) => address,
    };
    let found = ip(&["-j", family, "route", "show", "match", address], netns)?;
    let mut routes: Vec<Value> = serde_json::from_str(&found).context("`ip -j` gave no JSON")?;
    routes.retain(|route| {
        route["protocol"] != PROTOCOL.to_string().as_str()
            && interface.is_none_or(|name| route["dev"] == name)
    });
    // The most special one, which `ip` lists last, is the one that is taken.
    match routes.pop() {
        Some(route) => Ok(vec![route]),
        None => bail!(
            "there is no route to {prefix}{}: see `ip route`",
            match interface {
                Some(name) => format!(" through {name}"),
                None => String::new(),
            }
        ),
    }
}

fn text(route: &Value, key: &str) -> String {
    route[key].as_str().unwrap_or_default().to_owned()
}

fn command(prefix: &str, route: &Value, rule: &Rule) -> IpRoute {
    let family = if prefix.contains(':') { "-6" } else { "-4" };
    let mut words: Vec<String> = [family, "route", "prepend", prefix].map(String::from).to_vec();
    for (word, key) in [("via", "gateway"), ("dev", "dev"), ("src", "prefsrc")] {
        let value = text(route, key);
        if !value.is_empty() {
            words.extend([word.to_owned(), value]);
        }
    }
    words.extend(["proto".into(), PROTOCOL.to_string()]);
    let treatment = &rule.treatment;
    if let Some(name) = &treatment.algorithm {
        words.extend(["congctl".into(), name.clone()]);
    }
    if treatment.initial_window > 0 {
        words.extend(["initcwnd".into(), treatment.initial_window.to_string()]);
    }
    IpRoute(words)
}

fn ip(words: &[&str], netns: &Option<String>) -> Result<String> {
    let run = || -> Result<String> {
        let output = Command::new("ip")
            .args(words)
            .output()
            .context("there is no program `ip`: install iproute2")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("ip {}: {}", words.join(" "), said.trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    match netns {
        None => run(),
        Some(name) => namespace::inside(&namespace::path(name)?, run)?,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Rule {
        let algorithms = [String::from("cubic")];
        Policy::parse(text, &algorithms).expect("a good policy").rules.remove(0)
    }

    #[test]
    fn a_route_of_ours_copies_the_way_and_adds_the_metrics() {
        let rule = rule("[[rule]]\naction = { algorithm = \"cubic\", initial_window = 9 }");
        let route =
            serde_json::json!({ "gateway": "10.0.0.1", "dev": "eth0", "prefsrc": "10.0.0.2" });
        assert_eq!(
            command("default", &route, &rule).to_string(),
            "ip -4 route prepend default via 10.0.0.1 dev eth0 src 10.0.0.2 proto 84 \
             congctl cubic initcwnd 9"
        );
    }

    #[test]
    fn what_routes_do_not_know_is_named() {
        let rule =
            rule("[[rule]]\nmatch = { port = 5201, rtt = \"32ms..\" }\naction = { cap = 20 }");
        assert_eq!(lacks(&rule), ["cap", "port", "rtt"]);
    }
}
