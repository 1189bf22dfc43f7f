//! `transom tune`: policies on connections, by BPF, or by routes where there is none.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use transom_control::policy::{
    GuardSettings, Match, Policy, Rule, StabilitySettings, Treatment, fraction,
};
use transom_control::{
    Change, Engine, Kernel, ONE, Parameters, Scope, available_algorithms, engine, routes,
};
use transom_event::Prefix;
use transom_event::Reason;
use transom_machine::signals::Signals;

use crate::filters::duration;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Hold a policy in force until Ctrl-C, which takes everything back
    Apply(Apply),
    /// Give connections that match another algorithm or window, until `clear`
    Set(Box<Set>),
    /// Show what is tuned, and why
    Status(Status),
    /// Give every connection back what it had before
    Clear(Where),
}

#[derive(clap::Args)]
struct Where {
    /// Connections of one network namespace: a name of `ip netns`, a process id or a path
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
    /// How connections are reached: bpf reaches all, route only new ones by prefix and interface
    #[arg(long, value_enum, default_value = "bpf")]
    backend: Backend,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Backend {
    Bpf,
    Route,
}

#[derive(clap::Args)]
struct Apply {
    /// The policy, a TOML file (docs/policy.md)
    #[arg(value_name = "POLICY.toml")]
    policy: PathBuf,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// How many terminals share the access point, this one included; rules may ask for it
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    terminals: u32,
    /// Stop after this time
    #[arg(short, long, value_parser = duration, value_name = "TIME")]
    duration: Option<Duration>,
    #[command(flatten)]
    place: Where,
}

#[derive(clap::Args)]
struct Set {
    /// Congestion control: steady, or one that the kernel has
    #[arg(long, value_name = "NAME")]
    algorithm: Option<String>,
    /// Upper limit of the window, segments
    #[arg(long, value_name = "SEGMENTS", value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    cap: Option<u32>,
    /// Window of new connections, segments
    #[arg(long, value_name = "SEGMENTS", value_parser = clap::value_parser!(u32).range(1..=255))]
    initial_window: Option<u32>,
    /// steady: the window to jump to at once, segments
    #[arg(long, value_name = "SEGMENTS", value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    target: Option<u32>,
    /// steady: share of the window given up at congestion, 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "1/8", value_parser = share)]
    backoff: u32,
    /// steady: segments a round trip that the window grows
    #[arg(long, value_name = "SEGMENTS", default_value = "1", value_parser = gain)]
    gain: u32,
    /// Connections that this program made
    #[arg(long, value_delimiter = ',', value_name = "NAME", help_heading = "Which connections")]
    program: Vec<String>,
    /// Port of either end
    #[arg(long, value_delimiter = ',', value_name = "PORT", help_heading = "Which connections")]
    port: Vec<u16>,
    /// Address of the other end: 192.0.2.1, 10.0.0.0/8, 2001:db8::/32
    #[arg(long, value_delimiter = ',', value_name = "PREFIX", help_heading = "Which connections")]
    remote: Vec<Prefix>,
    /// Connections of a cgroup (v2) and all below it
    #[arg(long, value_name = "PATH", help_heading = "Which connections")]
    cgroup: Option<PathBuf>,
    /// Connections whose route leaves through this interface
    #[arg(long, value_name = "IFACE", help_heading = "Which connections")]
    interface: Option<String>,
    #[command(flatten)]
    place: Where,
}

#[derive(clap::Args)]
struct Status {
    /// One JSON object a connection
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Where,
}

fn share(text: &str) -> Result<u32, String> {
    fraction(text)
}

fn gain(text: &str) -> Result<u32, String> {
    match text.parse::<f64>() {
        Ok(value) if (1.0 / f64::from(ONE)..=64.0).contains(&value) => {
            Ok((value * f64::from(ONE)) as u32)
        }
        _ => Err(format!("'{text}' is no number of segments up to 64")),
    }
}

pub fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        Command::Apply(args) => apply(&args)?,
        Command::Set(args) => set(&args)?,
        Command::Status(args) => status(&args)?,
        Command::Clear(args) => clear(&args)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads a policy; all that is wrong with it is told at once.
fn read(path: &PathBuf) -> Result<Policy> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("reading the policy {}", path.display()))?;
    Policy::parse(&text, &available_algorithms()).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(|one| format!("  {one}")).collect();
        anyhow::anyhow!("{} is no good policy:\n{}", path.display(), lines.join("\n"))
    })
}

fn apply(args: &Apply) -> Result<()> {
    let policy = read(&args.policy)?;
    let scope = Scope::new(args.place.netns.as_deref())?;
    if args.place.backend == Backend::Route {
        return apply_routes(&policy, &scope, args);
    }
    if args.dry_run {
        let changes = engine::rehearse(&policy, scope, args.terminals)?;
        println!("{} connections would be changed now:", changes.len());
        changes.iter().for_each(|change| println!("{}", line(change)));
        return Ok(());
    }
    let signals = Signals::catch()?;
    let mut engine = Engine::start(policy, scope)?;
    engine.set_terminals(args.terminals)?;
    eprintln!("transom: {} is in force, Ctrl-C takes it back", args.policy.display());
    let result = hold(&mut engine, args, &signals);
    engine.stop()?;
    eprintln!("transom: every connection has back what it had");
    result
}

fn hold(engine: &mut Engine, args: &Apply, signals: &Signals) -> Result<()> {
    let deadline = args.duration.map(|time| Instant::now() + time);
    while !signals.came() && deadline.is_none_or(|at| Instant::now() < at) {
        let mut out = std::io::stdout().lock();
        for change in engine.tick()? {
            writeln!(out, "{}", line(&change))?;
        }
        out.flush()?;
        std::thread::sleep(engine::TICK);
    }
    Ok(())
}

fn line(change: &Change) -> String {
    let program = if change.program.is_empty() { "?" } else { &change.program };
    let refused = match change.refused {
        true => format!("; the kernel refused it, it has {}", change.algorithm),
        false => String::new(),
    };
    format!("{} {program}: {}{refused}", change.who, change.action)
}

fn apply_routes(policy: &Policy, scope: &Scope, args: &Apply) -> Result<()> {
    let plan = routes::Plan::of(policy, scope)?;
    for note in &plan.notes {
        eprintln!("transom: {note}");
    }
    for command in &plan.commands {
        println!("{command}");
    }
    if args.dry_run {
        return Ok(());
    }
    let signals = Signals::catch()?;
    plan.install()?;
    eprintln!("transom: new connections only, Ctrl-C takes it back");
    let deadline = args.duration.map(|time| Instant::now() + time);
    while !signals.came() && deadline.is_none_or(|at| Instant::now() < at) {
        std::thread::sleep(engine::TICK);
    }
    routes::clear(scope)
}

fn rule_of(args: &Set) -> Result<Policy> {
    let algorithms = available_algorithms();
    if let Some(name) = &args.algorithm
        && !algorithms.contains(name)
    {
        let there = algorithms.join(", ");
        bail!("the kernel has no algorithm '{name}': there are {there}; modprobe tcp_{name}");
    }
    if args.algorithm.is_none() && args.cap.is_none() && args.initial_window.is_none() {
        bail!("nothing to set: give --algorithm, --cap or --initial-window");
    }
    if let (Some(target), Some(cap)) = (args.target, args.cap)
        && target > cap
    {
        bail!("the target {target} is above the cap {cap}: raise the cap or lower the target");
    }
    let matching = Match {
        cgroup: args.cgroup.clone(),
        programs: args.program.clone(),
        ports: args.port.clone(),
        prefixes: args.remote.clone(),
        interface: args.interface.clone(),
        ..Match::default()
    };
    let treatment = Treatment {
        algorithm: args.algorithm.clone(),
        parameters: Parameters {
            target: args.target.unwrap_or(0),
            cap: args.cap.unwrap_or(0),
            backoff: args.backoff,
            gain: args.gain,
        },
        initial_window: args.initial_window.unwrap_or(0),
    };
    Ok(Policy {
        guard: GuardSettings::default(),
        stability: StabilitySettings::default(),
        hold: Duration::ZERO,
        rules: vec![Rule { name: None, line: 0, matching, treatment }],
    })
}

fn set(args: &Set) -> Result<()> {
    let policy = rule_of(args)?;
    let scope = Scope::new(args.place.netns.as_deref())?;
    if args.place.backend == Backend::Route {
        let plan = routes::Plan::of(&policy, &scope)?;
        plan.commands.iter().for_each(|command| println!("{command}"));
        return plan.install();
    }
    let mut compiled = policy.compile(&scope)?;
    for rule in &mut compiled.raw {
        rule.wish = policy.rules[0].treatment.wish(0, Reason::ByHand);
    }
    let mut kernel = Kernel::open(scope)?;
    // The newest comes first, so it wins.
    let mut rules = compiled.raw;
    rules.extend(kernel.pinned_rules());
    if rules.len() > transom_control::RULES {
        bail!("{} settings are in force already: transom tune clear", rules.len() - 1);
    }
    if kernel.is_pinned() {
        kernel.unkeep()?;
    } else {
        // What a process that was killed left.
        kernel.restore()?;
    }
    kernel.set_rules(&rules)?;
    let result = kernel.attach().and_then(|()| {
        let all = kernel.observe()?;
        let matching = all.iter().filter(|seen| seen.rules & 1 != 0);
        let wishes: Vec<_> = matching.map(|seen| (seen.cookie, rules[0].wish)).collect();
        kernel.act(&wishes)?;
        println!("{} running connections, and every new one that matches", wishes.len());
        Ok(())
    });
    match result {
        Ok(()) => kernel.keep(),
        Err(error) => {
            kernel.restore()?;
            kernel.forget()?;
            Err(error)
        }
    }
}

fn status(args: &Status) -> Result<()> {
    let scope = Scope::new(args.place.netns.as_deref())?;
    if args.place.backend == Backend::Route {
        routes::installed(&scope)?.iter().for_each(|route| println!("{route}"));
        return Ok(());
    }
    let changes = engine::status(&scope)?;
    for change in &changes {
        if args.json {
            println!("{}", json(change));
        } else {
            println!("{}", line(change));
        }
    }
    if changes.is_empty() && !args.json {
        println!("nothing is tuned");
    }
    Ok(())
}

fn json(change: &Change) -> serde_json::Value {
    serde_json::json!({
        "cookie": change.cookie,
        "local": change.who.local.to_string(),
        "remote": change.who.remote.to_string(),
        "program": change.program,
        "algorithm": change.algorithm,
        "before": change.before,
        "cap": change.action.cap,
        "rule": change.action.rule,
        "reason": change.action.reason.map(|reason| reason.name()),
    })
}

fn clear(place: &Where) -> Result<()> {
    let scope = Scope::new(place.netns.as_deref())?;
    if place.backend == Backend::Route {
        return routes::clear(&scope);
    }
    let mut kernel = Kernel::open(scope)?;
    kernel.unkeep()?;
    kernel.restore()?;
    kernel.forget()
}
