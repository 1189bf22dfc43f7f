//! `transom tune status`: what is tuned and why, in words or as JSON.

use anyhow::Result;
use serde_json::{Value, json};
use transom_control::policy::Rule;
use transom_control::routes::{self, Installed};
use transom_control::{Change, RawRule, Scope, engine, hand};
use transom_output::{note, say};

use super::{Backend, Where, line};

#[derive(clap::Args)]
pub struct Args {
    /// One JSON object a line: connections; if there is none, rules that wait or the process that
    /// holds a policy; and routes of --backend route
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Where,
}

pub fn run(args: &Args) -> Result<()> {
    let scope = Scope::new(args.place.netns.as_deref())?;
    if args.place.backend == Backend::Route {
        let routes = routes::installed(&scope)?;
        return say_routes(&routes, &scope, args.json);
    }
    let changes = engine::status(&scope)?;
    for change in &changes {
        match args.json {
            true => say!("{}", of_connection(change))?,
            false => say!("{}", line(change))?,
        }
    }
    // Where there is no `ip`, none were made.
    let all = std::iter::once(scope.clone()).chain(routes::elsewhere(&scope));
    let routes: Vec<_> = all
        .map(|one| (routes::installed(&one).unwrap_or_default(), one))
        .filter(|(routes, _)| !routes.is_empty())
        .collect();
    if changes.is_empty() {
        let waits = Waits::of(&scope)?;
        match args.json {
            true => waits.say_as_json()?,
            false => waits.say(!routes.is_empty())?,
        }
    }
    routes.iter().try_for_each(|(routes, one)| say_routes(routes, one, args.json))?;
    if hand::lacks_guard(&scope)? {
        note!("transom: no process guards `steady` here: repeat `transom tune set`");
    }
    Ok(())
}

/// What is in force though no connection has it.
enum Waits {
    Rules(Vec<RawRule>),
    Process(i32),
    Nothing,
}

impl Waits {
    fn of(scope: &Scope) -> Result<Waits> {
        let rules = hand::in_force(scope)?;
        if !rules.is_empty() {
            return Ok(Waits::Rules(rules));
        }
        Ok(scope.holder()?.map_or(Waits::Nothing, Waits::Process))
    }

    fn say(&self, has_routes: bool) -> Result<()> {
        match self {
            Waits::Rules(rules) => {
                say!("no connection is tuned; new ones that match get what was set:")?;
                rules.iter().try_for_each(|rule| say!("  {rule}"))?;
            }
            Waits::Process(process) => {
                say!("no connection is tuned; process {process} tunes those that match")?;
            }
            Waits::Nothing if has_routes => {}
            Waits::Nothing => say!("nothing is tuned")?,
        }
        Ok(())
    }

    fn say_as_json(&self) -> Result<()> {
        match self {
            Waits::Rules(rules) => rules.iter().try_for_each(|rule| say!("{}", of_rule(rule)))?,
            Waits::Process(process) => say!("{}", json!({ "holder": process }))?,
            Waits::Nothing => {}
        }
        Ok(())
    }
}

fn say_routes(routes: &[Installed], scope: &Scope, as_json: bool) -> Result<()> {
    if routes.is_empty() {
        return Ok(());
    }
    // Only root can ask for it.
    let is_held = routes::holder(scope).map_or(true, |process| process.is_some());
    if as_json {
        routes.iter().try_for_each(|route| say!("{}", of_route(route, scope, is_held)))?;
        return Ok(());
    }
    match &scope.netns {
        None => say!("new connections get what these routes say (`--backend route`):")?,
        Some(_) => {
            say!("new connections in {scope} get what these routes say (`--backend route`):")?
        }
    }
    routes.iter().try_for_each(|route| say!("  {route}"))?;
    if !is_held && routes.iter().any(|route| route.is_of_apply) {
        note!(
            "transom: an `apply` that was killed left those of protocol {}: the next start removes \
             them, or `transom tune clear`",
            routes::OF_APPLY
        );
    }
    Ok(())
}

fn of_connection(change: &Change) -> Value {
    json!({
        "cookie": change.cookie,
        "local": change.who.local.to_string(),
        "remote": change.who.remote.to_string(),
        "program": change.program,
        "algorithm": change.algorithm,
        "before": change.before,
        "target": change.target,
        "cap": change.action.cap,
        "rule": change.action.rule,
        "outcome": change.outcome.name(),
        "reason": change.action.reason.map(|reason| reason.name()),
    })
}

fn of_rule(raw: &RawRule) -> Value {
    let treatment = Rule::from(raw).treatment;
    json!({
        "matches": raw.matches(),
        "algorithm": treatment.algorithm,
        "target": treatment.parameters.target,
        "cap": treatment.parameters.cap,
        "initial_window": treatment.initial_window,
    })
}

fn of_route(route: &Installed, scope: &Scope, is_held: bool) -> Value {
    json!({
        "route": route.destination,
        "family": if route.is_ipv6 { 6 } else { 4 },
        "interface": route.interface,
        "gateway": route.gateway,
        "algorithm": route.algorithm,
        "initial_window": route.initial_window,
        "netns": scope.netns,
        "outcome": if route.is_of_apply && !is_held { "left" } else { "in_force" },
    })
}
