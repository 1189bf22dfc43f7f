//! `transom tune follow`: the policy that a fleet's roll-out has for this host.

mod files;
mod told;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::time::{ClockId, clock_gettime};
use transom_control::{Engine, Policy, Scope, available_algorithms, engine};
use transom_machine::signals::Signals;
use transom_output::note;
use transom_rollout::{Host, Now, Wanted};

use self::files::{Folder, Seen};
use self::told::Told;
use crate::filters::duration;

pub const EXAMPLES: &str = "Examples:
  transom tune follow /var/lib/transom-policy --trust /etc/transom/policy.keys
  transom tune follow policy --trust keys --state seen.json --netns phone --json";

/// How often the host is asked what it is to have: leases and halves of waves end by the second.
const TURN: Duration = Duration::from_secs(1);
/// After which time a policy is tried again that could not be put in force.
const AGAIN: Duration = Duration::from_secs(60);

#[derive(clap::Args)]
pub struct Args {
    /// Folder with the signed files `current` and `gen-N`, as `transom-fleet follow` copies them
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Public keys, one a line: policies that none of them signed are not believed
    #[arg(long, value_name = "KEYS")]
    trust: PathBuf,
    /// What was seen, so that nothing older is believed after a restart
    /// [default: seen.json in $STATE_DIRECTORY, else in /var/lib/transom-tune]
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// How often to look into the folder
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = interval,
          allow_hyphen_values = true)]
    every: Duration,
    /// What this machine is called in the fleet [default: its host name]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// One JSON object a change
    #[arg(long)]
    json: bool,
    /// Connections of one network namespace: a name of `ip netns`, a process id or a path
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
}

fn interval(text: &str) -> Result<Duration> {
    let every = duration(text)?;
    ensure!(
        (Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&every),
        "'{text}': give 100ms to 1h"
    );
    Ok(every)
}

impl Args {
    fn state(&self) -> PathBuf {
        let folder = || std::env::var_os("STATE_DIRECTORY").map(PathBuf::from);
        let named = self.state.clone();
        named.unwrap_or_else(|| {
            folder().unwrap_or_else(|| "/var/lib/transom-tune".into()).join("seen.json")
        })
    }

    fn host(&self) -> Result<String> {
        if let Some(name) = &self.host {
            return Ok(name.clone());
        }
        let own = rustix::system::uname();
        let name = own.nodename().to_str().context("the host name is not UTF-8: give --host")?;
        ensure!(
            !["localhost", "(none)", ""].contains(&name),
            "this machine is called '{name}', as others may be: give --host NAME"
        );
        Ok(name.to_owned())
    }
}

pub fn run(args: &Args) -> Result<()> {
    let keys = files::trusted(&args.trust)?;
    let folder = Folder::open(&args.folder)?;
    let seen = Seen::open(args.state())?;
    let name = args.host()?;
    let scope = Scope::new(args.netns.as_deref())?;
    let signals = Signals::catch_all()?;
    take_back(&scope)?;
    note!("transom: {name} follows {}, Ctrl-C takes all back", args.folder.display());
    let mut follower = Follower {
        host: Host::new(&name, keys, seen.known()),
        trust: args.trust.clone(),
        folder,
        seen,
        scope,
        in_force: None,
        is_left: false,
        failed: None,
        told: Told::new(args.json),
    };
    let result = follower.follow(args.every, &signals);
    follower.leave_nothing()?;
    note!("transom: every connection has back what it had");
    result?;
    follower.told.nothing("it was told to end")
}

/// What a follower that was killed left; and whether this kernel can do it at all.
fn take_back(scope: &Scope) -> Result<()> {
    Engine::start(Policy::of(Vec::new()), scope.clone())?.stop()
}

struct InForce {
    generation: u64,
    text: String,
    engine: Engine,
}

struct Follower {
    host: Host,
    /// The file of the keys that it trusts.
    trust: PathBuf,
    folder: Folder,
    seen: Seen,
    scope: Scope,
    in_force: Option<InForce>,
    /// A policy that was in force could not be taken back.
    is_left: bool,
    /// What could not be put in force, why, and when that was tried.
    failed: Option<(Wanted, String, Instant)>,
    told: Told,
}

impl Follower {
    fn follow(&mut self, every: Duration, signals: &Signals) -> Result<()> {
        let (mut read, mut turned) = (None::<Instant>, None::<Instant>);
        let is_due = |last: Option<Instant>, each| last.is_none_or(|at| at.elapsed() >= each);
        while !signals.came() {
            let is_read = is_due(read, every);
            if is_read {
                read = Some(Instant::now());
                self.read()?;
            }
            if is_read || is_due(turned, TURN) {
                turned = Some(Instant::now());
                self.turn()?;
            }
            if let Some(in_force) = &mut self.in_force {
                in_force.engine.tick()?;
                in_force.engine.names_news().iter().for_each(|news| note!("transom: {news}"));
            }
            std::thread::sleep(engine::TICK);
        }
        Ok(())
    }

    /// Keys that were changed are trusted from now on, and those that are no more are not. A file that
    /// is refused changes nothing: half of it may be written.
    fn read_keys(&mut self) {
        match files::trusted(&self.trust) {
            Ok(keys) => {
                self.told.keys_are_good();
                if keys != self.host.keys() {
                    note!("transom: {} has other keys now: {}", self.trust.display(), keys.len());
                    self.host.trust(keys);
                }
            }
            Err(error) => self.told.keys_refused(&error),
        }
    }

    /// Shows the host what lies in the folder.
    fn read(&mut self) -> Result<()> {
        self.read_keys();
        let current = match self.folder.current() {
            Ok(Some(current)) => current,
            Ok(None) => return Ok(()),
            Err(error) => return self.told.not_believed(&[], &error),
        };
        let folder = &self.folder;
        match self.host.take(&current, |number| folder.generation(number), now()) {
            Ok(()) => self.told.believed(),
            Err(error) => return self.told.not_believed(&current, &error),
        }
        // Until it is written, a replay after a restart could be believed, and no longer than its lease.
        if let Err(error) = self.seen.keep(self.host.known()) {
            self.told.not_kept(&error);
        }
        Ok(())
    }

    /// Puts in force what the host is to have now.
    fn turn(&mut self) -> Result<()> {
        let wanted = self.host.wanted(now());
        match &wanted {
            Wanted::Nothing(why) => {
                self.failed = None;
                self.withdraw()?;
                self.told.nothing(why)
            }
            Wanted::Policy { generation, text } => {
                let (generation, text) = (*generation, text.clone());
                self.put(wanted, generation, text)
            }
        }
    }

    fn put(&mut self, wanted: Wanted, generation: u64, text: String) -> Result<()> {
        if let Some(in_force) = self.in_force.as_mut().filter(|it| it.text == text) {
            in_force.generation = generation;
            return self.told.in_force(generation);
        }
        if let Some((failed, why, at)) = &self.failed
            && *failed == wanted
            && at.elapsed() < AGAIN
        {
            return self.told.nothing(why);
        }
        self.withdraw()?;
        match start(&text, &self.scope) {
            Ok(engine) => {
                self.failed = None;
                self.in_force = Some(InForce { generation, text, engine });
                self.told.in_force(generation)
            }
            Err(error) => {
                let why = format!("generation {generation} cannot be put in force: {error:#}");
                self.told.nothing(&why)?;
                self.failed = Some((wanted, why, Instant::now()));
                Ok(())
            }
        }
    }

    fn withdraw(&mut self) -> Result<()> {
        let Some(InForce { generation, engine, .. }) = self.in_force.take() else { return Ok(()) };
        self.is_left = true;
        engine.stop().with_context(|| format!("taking generation {generation} back"))?;
        self.is_left = false;
        Ok(())
    }

    /// What could not be taken back is tried once more.
    fn leave_nothing(&mut self) -> Result<()> {
        let stopped = self.withdraw();
        if self.is_left {
            take_back(&self.scope).context(
                "connections may keep what they have: the next start takes it back, when what is wrong \
                 here is mended",
            )?;
            self.is_left = false;
            return Ok(());
        }
        stopped
    }
}

fn start(text: &str, scope: &Scope) -> Result<Engine> {
    let policy = Policy::parse(text, &available_algorithms()).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("{}", lines.join("; "))
    })?;
    Engine::start(policy, scope.clone())
}

fn now() -> Now {
    let seconds = |clock| u64::try_from(clock_gettime(clock).tv_sec).unwrap_or(0);
    Now { wall_s: seconds(ClockId::Realtime), boot_s: seconds(ClockId::Boottime) }
}
