//! The lever where there is no BPF: metrics of routes, `congctl` and `initcwnd`.
//! They reach new connections only, by prefix and interface. A third, `cwnd lock`,
//! would be the clamp, but tcp_init_metrics takes it from the cache of metrics:
//! the first connection to an address does not get it, and it outlives the route.
//! Each is a route of our own just before the one it copies, which packets keep to,
//! under protocol numbers of our own, so that taking all back needs no notes.

mod installed;

use std::cmp::Reverse;
use std::fmt;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use rustix::fs::{MemfdFlags, memfd_create};
use serde_json::Value;
use transom_event::Prefix;
use transom_machine::namespace;

use crate::policy::{Match, Policy, Rule};
use crate::scope::Scope;

pub use installed::{Installed, elsewhere, installed};
use installed::{are_there, others};

/// `rtm_protocol` of the routes that stay until `clear`, and of those that end with the process that
/// holds a policy: what one that was killed left is known by its number. Neither is given to anybody
/// (linux/rtnetlink.h, iproute2's rt_protos).
pub const OF_SET: u8 = 116;
pub const OF_APPLY: u8 = 117;
const OURS: [u8; 2] = [OF_SET, OF_APPLY];

const V4: &str = "-4";
const V6: &str = "-6";

/// One `ip route` that will be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpRoute(Vec<String>);

impl IpRoute {
    /// What there is of ours to the same destination through the same interface.
    fn remove(&self, netns: &Option<String>) -> Result<()> {
        let after = |word: &str| {
            let at = self.0.iter().position(|one| one == word);
            at.and_then(|at| self.0.get(at + 1)).map_or("", String::as_str)
        };
        let (family, to) = (self.0[0].as_str(), after("prepend"));
        let words = [family, "route", "flush", to, "dev", after("dev"), "proto", after("proto")];
        ip(&words, netns).map(drop)
    }
}

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
    /// In routes of this protocol, [`OF_SET`] or [`OF_APPLY`].
    ///
    /// # Errors
    /// When there is no `ip`, or no route to a prefix.
    pub fn of(policy: &Policy, scope: &Scope, protocol: u8) -> Result<Plan> {
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
            for (to, route) in ways(&rule.matching, &plan.netns)? {
                let key = format!("{} {to} {}", to.family, text(&route, "dev"));
                if given.contains(&key) {
                    continue;
                }
                given.push(key);
                plan.commands.push(command(&to, &route, rule, protocol));
            }
        }
        Ok(plan)
    }

    /// Its routes, and none of ours beside them.
    ///
    /// # Errors
    /// When a route cannot be added; those that were there are then there again.
    pub fn install(&self) -> Result<()> {
        or_as_before(&self.netns, || {
            flush(&self.netns, &OURS)?;
            self.add_all()
        })
    }

    /// Its routes beside those that are there. One of ours for the same packets is replaced: of two,
    /// IPv6 would take both in turn.
    ///
    /// # Errors
    /// When a route cannot be added; those that were there are then there again.
    pub fn add(&self) -> Result<()> {
        or_as_before(&self.netns, || {
            flush(&self.netns, &[OF_APPLY])?;
            self.add_all()
        })
    }

    fn add_all(&self) -> Result<()> {
        self.commands.iter().try_for_each(|command| {
            command.remove(&self.netns)?;
            let words: Vec<&str> = command.0.iter().map(String::as_str).collect();
            ip(&words, &self.netns).map(drop)
        })
    }
}

/// Held by the one process that changes the routes of a namespace, ours if none is named.
///
/// # Errors
/// When another one tunes the same connections, with its number; or the file of locks cannot be
/// opened, as by another user than root.
pub fn alone(scope: &Scope) -> Result<File> {
    of_namespace(scope)?.lock()
}

/// The process that holds them, if one does.
///
/// # Errors
/// When the file of locks cannot be opened.
pub fn holder(scope: &Scope) -> Result<Option<i32>> {
    of_namespace(scope)?.holder()
}

fn of_namespace(scope: &Scope) -> Result<Scope> {
    let inode = match scope.is_all() {
        true => namespace::inode(Path::new("/proc/self/ns/net"))?,
        false => scope.inode,
    };
    Ok(Scope { inode, ..scope.clone() })
}

/// Makes a change, or leaves the routes of `set` as they were. Nobody else changes ours, so that those
/// of an `apply` are what a killed one left.
fn or_as_before(netns: &Option<String>, change: impl FnOnce() -> Result<()>) -> Result<()> {
    let protocol = OF_SET.to_string();
    let save = |family| -> Result<File> {
        let words = [family, "route", "save", "proto", &protocol];
        Ok(in_memory(&without_carrier(ip_with(&words, Stdio::null(), netns)?))?)
    };
    let before = [(V4, save(V4)?), (V6, save(V6)?)];
    let Err(error) = change() else { return Ok(()) };
    // Each is tried, whatever fails; what made it necessary is told in any case.
    let mut failures = Vec::from_iter(flush(netns, &OURS).err());
    for (family, routes) in before {
        failures.extend(ip_with(&[family, "route", "restore"], routes.into(), netns).err());
    }
    match failures.iter().map(|failure| format!("{failure:#}")).reduce(|a, b| format!("{a}; {b}")) {
        None => Err(error),
        Some(failures) => {
            Err(error.context(format!("what was there before could not be restored: {failures}")))
        }
    }
}

/// `rtnh_flags` of linux/rtnetlink.h.
const DEAD_OR_LINKDOWN: u32 = 1 | 16;

/// The messages of `ip route save`, which begin after a number of four bytes, without the flags that
/// say that a link is down: the kernel tells them and takes no route with them.
fn without_carrier(mut saved: Vec<u8>) -> Vec<u8> {
    const FIRST: usize = 4;
    // In `struct rtmsg`, behind `struct nlmsghdr`.
    const FLAGS: usize = 16 + 8;
    let mut at = FIRST;
    while let Some(flags) = saved.get_mut(at + FLAGS..at + FLAGS + 4) {
        let without = u32::from_ne_bytes([flags[0], flags[1], flags[2], flags[3]]);
        flags.copy_from_slice(&(without & !DEAD_OR_LINKDOWN).to_ne_bytes());
        let length = saved[at..at + 4].iter().rev().fold(0, |n, &byte| n << 8 | usize::from(byte));
        if length < FLAGS {
            break;
        }
        at += length.next_multiple_of(4);
    }
    saved
}

/// `ip route restore` reads twice, so that no pipe will do.
fn in_memory(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("routes", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

/// Removes every route of ours.
///
/// # Errors
/// When `ip` fails.
pub fn clear(scope: &Scope) -> Result<()> {
    flush(&scope.netns, &OURS)
}

/// Removes what an `apply` that was killed left, in all namespaces that the scope reaches; whoever
/// holds the scope calls it.
///
/// # Errors
/// When `ip` fails to remove what there is.
pub fn take_back(scope: &Scope) -> Result<()> {
    for one in std::iter::once(scope.clone()).chain(others(scope)) {
        if are_there(&[OF_APPLY], &one) {
            flush(&one.netns, &[OF_APPLY])
                .context("removing routes that `transom tune apply` left when it was killed")?;
        }
    }
    Ok(())
}

fn flush(netns: &Option<String>, protocols: &[u8]) -> Result<()> {
    for family in [V4, V6] {
        for protocol in protocols {
            ip(&[family, "route", "flush", "proto", &protocol.to_string()], netns)?;
        }
    }
    Ok(())
}

fn gateway(route: &Value) -> Option<String> {
    let gateway = route["gateway"].as_str().or_else(|| route["via"]["host"].as_str());
    gateway.map(str::to_owned)
}

fn json(said: &str) -> Result<Vec<Value>> {
    // Of no routes, some versions say nothing at all.
    let said = if said.trim().is_empty() { "[]" } else { said };
    serde_json::from_str(said).context("`ip -j` gave no JSON")
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

/// Where packets of a rule go.
struct Destination {
    /// The option of `ip`.
    family: &'static str,
    /// None: all that no other route takes.
    prefix: Option<Prefix>,
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.prefix {
            None => f.write_str("default"),
            Some(prefix) => prefix.fmt(f),
        }
    }
}

impl Destination {
    fn to(prefix: &Prefix) -> Destination {
        let family = if prefix.addr.is_ipv6() { V6 } else { V4 };
        Destination { family, prefix: Some(prefix.network()) }
    }

    fn is_of(&self, route: &Value) -> bool {
        length(route) == self.prefix.map_or(0, |prefix| u64::from(prefix.length))
    }

    /// The routes that cover all of it, ours left out.
    fn routes(&self, netns: &Option<String>) -> Result<Vec<Value>> {
        let covering = match &self.prefix {
            Some(prefix) => prefix.to_string(),
            None if self.family == V6 => String::from("::/0"),
            None => String::from("0.0.0.0/0"),
        };
        let found = ip(&["-j", self.family, "route", "show", "match", &covering], netns)?;
        let mut routes = json(&found)?;
        // Those with a type of service are for marked packets only.
        routes.retain(|route| {
            OURS.iter().all(|one| route["protocol"] != one.to_string().as_str())
                && route["tos"].is_null()
                && !has_flag(route, "dead")
        });
        Ok(routes)
    }
}

/// Where packets of a rule go, and the route that they take there now. Without `remote`,
/// all that either family has a default route for.
fn ways(matching: &Match, netns: &Option<String>) -> Result<Vec<(Destination, Value)>> {
    let interface = matching.interface.as_deref();
    let mut to: Vec<Destination> = matching.prefixes.iter().map(Destination::to).collect();
    let anywhere = to.is_empty();
    if anywhere {
        to.extend([V4, V6].map(|family| Destination { family, prefix: None }));
    }
    let mut ways = Vec::new();
    let mut last = String::new();
    for to in to {
        let routes = to.routes(netns)?;
        match choose(&routes, &to, interface)? {
            Some(route) => ways.push((to, route.clone())),
            None if anywhere => last = to.to_string(),
            None => bail!(no_route(&to.to_string(), interface)),
        }
    }
    if ways.is_empty() {
        bail!(no_route(&last, interface));
    }
    Ok(ways)
}

fn no_route(to: &str, interface: Option<&str>) -> String {
    let through = interface.map_or(String::new(), |name| format!(" through {name}"));
    format!("there is no route to {to}{through}: see `ip route`")
}

/// The route to copy: the one that packets take now, or would through this interface.
/// A copy that other packets would follow is refused.
fn choose<'a>(
    routes: &'a [Value],
    to: &Destination,
    interface: Option<&str>,
) -> Result<Option<&'a Value>> {
    let leaves = |route: &&Value| interface.is_none_or(|name| devices(route).contains(&name));
    // Of equal ones the kernel takes the first.
    let rank = |route: &&Value| (Reverse(length(route)), metric(route));
    let Some(chosen) = routes.iter().filter(leaves).min_by_key(rank) else { return Ok(None) };
    if let Some(kind) = chosen["type"].as_str() {
        bail!("there is no way to {to}: its route is `{kind}`");
    }
    if !chosen["nexthops"].is_null() {
        bail!(
            "the route to {to} has several next hops ({}), and a copy would be one of them: \
             add the algorithm (`congctl`) and the window (`initcwnd`) to it with `ip route change`",
            devices(chosen).join(", ")
        );
    }
    let same = |other: &&Value| std::ptr::eq(*other, chosen);
    let rival = if to.is_of(chosen) {
        let before = routes.iter().take_while(|other| !same(other));
        let equal = |other: &&Value| rank(other) == rank(&chosen);
        let between = |other: &&Value| {
            to.is_of(other) && to.family == V6 && metric(other) + 1 == metric(chosen)
        };
        before.clone().find(equal).or_else(|| routes.iter().find(between))
    } else {
        // The longer prefix goes before every metric.
        routes.iter().min_by_key(rank).filter(|first| !same(first))
    };
    let device = text(chosen, "dev");
    if let Some(rival) = rival {
        bail!(
            "packets to {to} that leave through {} now would follow a copy of the route \
             through {device}: give that one a metric of its own (`ip route`)",
            devices(rival).join(", ")
        );
    }
    if to.family == V6 && to.is_of(chosen) && metric(chosen) < 2 {
        bail!("no metric is left before the route to {to} through {device}: give it a larger one");
    }
    Ok(Some(chosen))
}

fn text(route: &Value, key: &str) -> String {
    route[key].as_str().unwrap_or_default().to_owned()
}

fn has_flag(route: &Value, flag: &str) -> bool {
    route["flags"].as_array().is_some_and(|flags| flags.iter().any(|one| one == flag))
}

/// Without one, IPv4 has 0; `ip` always shows that of IPv6.
fn metric(route: &Value) -> u64 {
    route["metric"].as_u64().unwrap_or(0)
}

fn length(route: &Value) -> u64 {
    match text(route, "dst").split_once('/') {
        Some((_, length)) => length.parse().unwrap_or(0),
        None if route["dst"] == "default" => 0,
        None if text(route, "dst").contains(':') => 128,
        None => 32,
    }
}

fn devices(route: &Value) -> Vec<&str> {
    let hops = route["nexthops"].as_array().into_iter().flatten();
    hops.chain([route]).filter_map(|hop| hop["dev"].as_str()).collect()
}

/// Goes just before the route it copies. IPv4 takes the first of one metric, which `prepend`
/// makes ours; IPv6 would take both in turn, or refuses the second.
fn command(to: &Destination, route: &Value, rule: &Rule, protocol: u8) -> IpRoute {
    let mut words = [to.family, "route", "prepend", &to.to_string()].map(String::from).to_vec();
    let mut add = |words_of: &[&str]| words.extend(words_of.iter().copied().map(String::from));
    if let (Some(family), Some(host)) =
        (route["via"]["family"].as_str(), route["via"]["host"].as_str())
    {
        add(&["via", family, host]);
    }
    for (word, key) in [("via", "gateway"), ("dev", "dev"), ("src", "prefsrc")] {
        if let Some(value) = route[key].as_str() {
            add(&[word, value]);
        }
    }
    if has_flag(route, "onlink") {
        add(&["onlink"]);
    }
    let before = u64::from(to.family == V6 && to.is_of(route));
    if metric(route) > 0 {
        add(&["metric", &(metric(route) - before).to_string()]);
    }
    for key in ["mtu", "advmss"] {
        if let Some(value) = route["metrics"][0][key].as_u64() {
            add(&[key, &value.to_string()]);
        }
    }
    add(&["proto", &protocol.to_string()]);
    let treatment = &rule.treatment;
    if let Some(name) = &treatment.algorithm {
        add(&["congctl", name]);
    }
    if treatment.initial_window > 0 {
        add(&["initcwnd", &treatment.initial_window.to_string()]);
    }
    IpRoute(words)
}

fn ip(words: &[&str], netns: &Option<String>) -> Result<String> {
    ip_with(words, Stdio::null(), netns).map(|said| String::from_utf8_lossy(&said).into_owned())
}

fn ip_with(words: &[&str], input: Stdio, netns: &Option<String>) -> Result<Vec<u8>> {
    let run = || -> Result<Vec<u8>> {
        let output = Command::new("ip")
            .args(words)
            .stdin(input)
            .output()
            .context("there is no program `ip`: install iproute2")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("ip {}: {}", words.join(" "), said.trim());
        }
        Ok(output.stdout)
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

    fn default(family: &'static str) -> Destination {
        Destination { family, prefix: None }
    }

    #[test]
    fn a_route_of_ours_copies_the_way_and_adds_the_metrics() {
        let rule = rule("[[rule]]\naction = { algorithm = \"cubic\", initial_window = 9 }");
        let route =
            serde_json::json!({ "gateway": "10.0.0.1", "dev": "eth0", "prefsrc": "10.0.0.2" });
        assert_eq!(
            command(&default(V4), &route, &rule, OF_SET).to_string(),
            "ip -4 route prepend default via 10.0.0.1 dev eth0 src 10.0.0.2 proto 116 \
             congctl cubic initcwnd 9"
        );
    }

    #[test]
    fn what_the_path_needs_is_copied_too() {
        let rule = rule("[[rule]]\naction = { initial_window = 9 }");
        let route = serde_json::json!({
            "dst": "default", "via": { "family": "inet6", "host": "fe80::1" }, "dev": "vpn",
            "metric": 50, "flags": ["onlink"], "metrics": [{ "mtu": 1400, "advmss": 1340 }],
        });
        assert_eq!(
            command(&default(V4), &route, &rule, OF_SET).to_string(),
            "ip -4 route prepend default via inet6 fe80::1 dev vpn onlink metric 50 mtu 1400 \
             advmss 1340 proto 116 initcwnd 9"
        );
    }

    #[test]
    fn what_routes_do_not_know_is_named() {
        let rule =
            rule("[[rule]]\nmatch = { port = 5201, rtt = \"32ms..\" }\naction = { cap = 20 }");
        assert_eq!(lacks(&rule), ["cap", "port", "rtt"]);
    }
}
