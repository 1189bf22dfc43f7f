//! `transom tune`: policies on connections, by BPF, or by routes where there is none.

mod follow;
mod status;
mod suggest;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use transom_analysis::units::count;
use transom_control::policy::milliseconds;
use transom_control::{
    Change, Draft, Engine, Outcome, Policy, Scope, available_algorithms, engine, hand, routes,
};
use transom_machine::signals::Signals;
use transom_monitor::is_refusal;

use transom_output::{note, say, text_of};

use crate::filters::duration;
use crate::service::port;

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  transom tune set --algorithm bbr --port 443       until `transom tune clear`
  transom tune apply far.toml --dry-run             what a policy would do now
  transom tune apply far.toml                       until Ctrl-C
  transom tune status --json
  transom tune clear
  transom tune follow policy --trust keys           what the fleet's roll-out has for this host
  transom tune suggest upload.parquet               what would help a recorded connection most";

const SET_EXAMPLES: &str = "Examples:
  transom tune set --algorithm bbr --port 443
  transom tune set --cap 55 --remote 10.0.0.0/8 --interface wlan0
  transom tune set --algorithm steady --target 70 --cap 100 --program iperf
  transom tune set --algorithm steady --rtt 16ms..   below the usual 32 ms, too";

const APPLY_EXAMPLES: &str = "Examples:
  transom tune apply far.toml --dry-run
  transom tune apply far.toml --netns phone -d 10min
  transom tune apply far.toml --terminals 3";

#[derive(Subcommand)]
enum Command {
    /// Hold a policy in force until Ctrl-C, which takes everything back
    #[command(after_help = APPLY_EXAMPLES)]
    Apply(Apply),
    /// Give connections that match another algorithm or window, until `clear`
    #[command(after_help = SET_EXAMPLES)]
    Set(Box<Set>),
    /// Show what is tuned, and why
    Status(status::Args),
    /// Give every connection back what it had before
    Clear(Where),
    /// Put in force what a fleet's roll-out has for this host, until Ctrl-C takes everything back
    #[command(after_help = follow::EXAMPLES)]
    Follow(follow::Args),
    /// Name what would have helped a recorded connection most, and how to set it
    #[command(after_help = suggest::EXAMPLES)]
    Suggest(suggest::Args),
    /// Guard what `set` put in force: started by `set`, ends with `clear`
    #[command(hide = true)]
    Guard(Where),
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
    #[arg(short, long, value_parser = duration, allow_hyphen_values = true, value_name = "TIME")]
    duration: Option<Duration>,
    #[command(flatten)]
    place: Where,
}

/// Checked as a rule of a policy file is.
#[derive(clap::Args)]
struct Set {
    /// Congestion control: steady, or one that the kernel has
    #[arg(long, visible_alias = "cc", value_name = "NAME")]
    algorithm: Option<String>,
    /// Upper limit of the window, segments
    #[arg(long, value_name = "SEGMENTS", allow_negative_numbers = true)]
    cap: Option<i64>,
    /// Window of new connections, segments
    #[arg(long, value_name = "SEGMENTS", allow_negative_numbers = true)]
    initial_window: Option<i64>,
    /// steady: the window to jump to at once, segments [default: what the path is found to hold]
    #[arg(long, value_name = "SEGMENTS", allow_negative_numbers = true)]
    target: Option<i64>,
    /// steady: share of the window given up at congestion, 0 to 1 [default: 1/8]
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    backoff: Option<String>,
    /// steady with a target: segments per round trip that the window grows by [default: 1]
    #[arg(long, value_name = "SEGMENTS", allow_negative_numbers = true)]
    gain: Option<f64>,
    /// Connections that this program made; up to 4 names
    #[arg(long, value_delimiter = ',', value_name = "NAME", help_heading = "Which connections")]
    program: Vec<String>,
    /// Port of either end: a number, or a name of /etc/services; up to 16
    #[arg(long, value_delimiter = ',', value_name = "PORT", value_parser = port_or_number,
          help_heading = "Which connections")]
    port: Vec<i64>,
    /// Address of the other end: 192.0.2.1, 10.0.0.0/8, 2001:db8::/32; up to 16
    #[arg(long, value_delimiter = ',', value_name = "PREFIX", help_heading = "Which connections")]
    remote: Vec<String>,
    /// Connections of a cgroup (v2) and all below it
    #[arg(long, value_name = "PATH", help_heading = "Which connections")]
    cgroup: Option<PathBuf>,
    /// Connections whose route leaves through this interface, of this network namespace or of --netns
    #[arg(long, value_name = "IFACE", help_heading = "Which connections")]
    interface: Option<String>,
    /// Round trip of the path: 32ms.. or ..8ms [default: 32ms.. for steady with a target]
    #[arg(long, value_name = "RANGE", help_heading = "Which connections")]
    rtt: Option<String>,
    #[command(flatten)]
    place: Where,
}

pub fn run(args: Args) -> Result<ExitCode> {
    let done = match args.command {
        Command::Apply(args) => apply(&args),
        Command::Set(args) => set(&args),
        Command::Status(args) => status::run(&args),
        Command::Clear(args) => clear(&args),
        Command::Guard(args) => guard(&args),
        Command::Follow(args) => follow::run(&args),
        Command::Suggest(args) => return suggest::run(&args),
    };
    done.map(|()| ExitCode::SUCCESS).map_err(|error| {
        let lacks_root = !rustix::process::geteuid().is_root();
        match lacks_root && is_refusal(&error.root_cause().to_string()) {
            true => error.context("run as root (sudo)"),
            false => error,
        }
    })
}

/// Reads a policy; all that is wrong with it is reported at once.
fn read(path: &Path) -> Result<Policy> {
    let text = text_of(path).with_context(|| format!("reading the policy {}", path.display()))?;
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
        let changes = engine::rehearse(&policy, scope.clone(), args.terminals)?;
        let connections = count(changes.len() as u64, "connection", "connections");
        say!("{connections} would be changed now:")?;
        changes.iter().try_for_each(|change| say!("{}", line(change)))?;
        if !hand::in_force(&scope)?.is_empty() {
            note!("transom: `transom tune set` is in force here: `transom tune clear` first");
        }
        return Ok(());
    }
    let signals = Signals::catch()?;
    let mut engine = Engine::start(policy, scope)?;
    engine.set_terminals(args.terminals)?;
    note!("transom: {} is in force, Ctrl-C takes it back", args.policy.display());
    let result = hold(&mut engine, args, &signals);
    engine.stop()?;
    note!("transom: every connection has back what it had");
    result
}

fn hold(engine: &mut Engine, args: &Apply, signals: &Signals) -> Result<()> {
    let deadline = args.duration.map(|time| Instant::now() + time);
    while !signals.came() && deadline.is_none_or(|at| Instant::now() < at) {
        print(&engine.tick()?)?;
        engine.names_news().iter().for_each(|news| note!("transom: {news}"));
        std::thread::sleep(engine::TICK);
    }
    // What the last look did is told by the one after it; where that fails, so does the end.
    print(&engine.done_since().unwrap_or_default())
}

fn print(changes: &[Change]) -> Result<()> {
    let mut out = transom_output::standard_output();
    changes.iter().try_for_each(|change| writeln!(out, "{}", line(change)))?;
    Ok(out.flush()?)
}

fn line(change: &Change) -> String {
    let program = if change.program.is_empty() { "?" } else { &change.program };
    let outcome = match change.outcome {
        Outcome::InForce | Outcome::Withdrawn => String::new(),
        Outcome::Refused => format!("; the kernel refused it, it has {}", change.algorithm),
        Outcome::ProgramChose => {
            format!("; the program has since chosen {} itself", change.algorithm)
        }
    };
    let action = change.action.with_target(change.target);
    format!("{} {program}: {action}{outcome}", change.who)
}

fn apply_routes(policy: &Policy, scope: &Scope, args: &Apply) -> Result<()> {
    let plan = routes::Plan::of(policy, scope, routes::OF_APPLY)?;
    for note in &plan.notes {
        note!("transom: {note}");
    }
    if plan.commands.is_empty() {
        bail!("{}: routes can keep none of its rules", args.policy.display());
    }
    for command in &plan.commands {
        say!("{command}")?;
    }
    if args.dry_run {
        return Ok(());
    }
    let signals = Signals::catch()?;
    let _alone = routes::alone(scope)?;
    plan.install()?;
    note!("transom: new connections only, Ctrl-C takes it back");
    let deadline = args.duration.map(|time| Instant::now() + time);
    while !signals.came() && deadline.is_none_or(|at| Instant::now() < at) {
        std::thread::sleep(engine::TICK);
    }
    routes::clear(scope)
}

/// Which numbers are ports is told with all else that is wrong.
fn port_or_number(text: &str) -> Result<i64> {
    text.parse().or_else(|_| port(text).map(i64::from))
}

/// The rule that the words of `set` make, checked as one of a file.
fn policy_of(args: &Set) -> Result<Policy> {
    fn some<T: Clone>(values: &[T]) -> Option<Vec<T>> {
        (!values.is_empty()).then(|| values.to_vec())
    }
    let draft = Draft {
        cgroup: args.cgroup.clone(),
        program: some(&args.program),
        port: some(&args.port),
        remote: some(&args.remote),
        interface: args.interface.clone(),
        rtt: args.rtt.clone(),
        algorithm: args.algorithm.clone(),
        target: args.target,
        cap: args.cap,
        backoff: args.backoff.clone(),
        gain: args.gain,
        initial_window: args.initial_window,
        ..Draft::default()
    };
    let rule = draft.check(&available_algorithms()).map_err(|complaints| {
        let lines = complaints.iter().map(|one| match one.key {
            "" => format!("  {one}"),
            key => format!("  --{}: {one}", key.replace('_', "-")),
        });
        anyhow::anyhow!("nothing was set:\n{}", lines.collect::<Vec<_>>().join("\n"))
    })?;
    Ok(Policy::of(vec![rule]))
}

fn set(args: &Set) -> Result<()> {
    let mut policy = policy_of(args)?;
    let scope = Scope::new(args.place.netns.as_deref())?;
    if args.place.backend == Backend::Route {
        let plan = routes::Plan::of(&policy, &scope, routes::OF_SET)?;
        if let Some(note) = plan.notes.first() {
            bail!("{note}");
        }
        plan.commands.iter().try_for_each(|command| say!("{command}"))?;
        let _alone = routes::alone(&scope)?;
        return plan.add();
    }
    let rule = policy.rules.remove(0);
    let floor = rule.matching.rtt_us.filter(|_| args.rtt.is_none());
    let for_new_ones = rule.treatment.is_for_new_connections();
    let reached = hand::set(rule, scope)?;
    let running = count(reached.running as u64, "running connection", "running connections");
    match for_new_ones {
        true => say!("every new connection that matches; those that run have begun already")?,
        false => say!("{running}, and every new one that matches")?,
    }
    if let Some(range) = floor {
        let least = milliseconds(range.least);
        note!("transom: a target from a round trip of {least} on; --rtt 0ms.. gives it below");
    }
    if reached.needs_guard {
        let guard = start_guard(&args.place)?;
        note!("transom: process {guard} guards it until `transom tune clear`");
    }
    Ok(())
}

/// A process of its own, which no Ctrl-C of this terminal reaches.
fn start_guard(place: &Where) -> Result<u32> {
    use std::os::unix::process::CommandExt;
    use std::process::Stdio;
    let mut command = std::process::Command::new("/proc/self/exe");
    command.args(["tune", "guard"]);
    if let Some(netns) = &place.netns {
        command.args(["--netns", netns]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    Ok(command.spawn().context("starting the guard")?.id())
}

fn guard(place: &Where) -> Result<()> {
    let scope = Scope::new(place.netns.as_deref())?;
    let signals = Signals::catch()?;
    hand::guard(&scope, || signals.came())
}

fn clear(place: &Where) -> Result<()> {
    let scope = Scope::new(place.netns.as_deref())?;
    if place.backend == Backend::Route {
        let _alone = routes::alone(&scope)?;
        return routes::clear(&scope);
    }
    let restored = hand::clear(scope.clone(), |left| note!("transom: {left}"));
    let mut removed = Ok(());
    for one in std::iter::once(scope.clone()).chain(routes::elsewhere(&scope)) {
        // Where there is no `ip`, none were made.
        if routes::installed(&one).is_ok_and(|routes| !routes.is_empty()) {
            match routes::alone(&one) {
                Ok(_alone) => removed = removed.and(routes::clear(&one)),
                Err(held) => {
                    let place = one.netns.as_ref().map(|_| format!(" in {one}"));
                    note!("transom: the routes{} stay: {held:#}", place.unwrap_or_default());
                }
            }
        }
    }
    restored.and(removed)
}
