//! What this kernel lets us do, purpose by purpose, without leaving a trace.

use std::collections::HashMap;
use std::path::Path;
use std::{fs, io};

use anyhow::Result;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Func, FuncProto, Ptr, Typedef};
use transom_event::Kind;
use transom_machine::selinux::{self, Selinux};
use transom_machine::{bpffs, cgroup, objects};

use crate::btf::{self, BTF, BTF_PATH};
use crate::privilege;
use crate::probes::{Candidate, Need, PURPOSES, Purpose, Tier};

/// Without these facts the programs cannot be loaded.
const NEEDED: &[&str] = &[BTF, LOCKDOWN, SELINUX, "CAP_BPF", "CAP_PERFMON", LOADING, COOKIES];

const SELINUX: &str = "SELinux";
const LOCKDOWN: &str = "lockdown";
const COOKIES: &str = "socket cookies";
const LOADING: &str = "bpf(2)";

/// One thing that is there or not, with what to do if not.
#[derive(Clone, Debug)]
pub struct Fact {
    pub name: &'static str,
    pub ok: bool,
    pub found: String,
    /// Why it matters and how to get it; empty when it is there.
    pub remedy: String,
}

impl Fact {
    /// That it is not as it should be, in short.
    pub fn lack(&self) -> String {
        self.refusal().unwrap_or_else(|| format!("{} is missing", self.name))
    }

    /// Of what is there, and refuses.
    fn refusal(&self) -> Option<String> {
        match self.name {
            BTF | SELINUX | LOCKDOWN => Some(format!("{} {}", self.name, self.found)),
            LOADING => Some(format!("{LOADING} is refused")),
            _ => None,
        }
    }
}

/// How one purpose is served.
#[derive(Debug)]
pub struct Choice {
    pub purpose: &'static Purpose,
    pub chosen: Option<&'static Candidate>,
    /// The better ways that do not work here, and why.
    pub refused: Vec<(&'static Candidate, String)>,
    /// Lower ways that this kernel has.
    others: Vec<&'static Candidate>,
}

/// The answer of `transom check`.
#[derive(Debug)]
pub struct Survey {
    pub kernel: String,
    pub facts: Vec<Fact>,
    pub choices: Vec<Choice>,
    /// Whether the monitor can run; if not, only polling is left.
    pub can_monitor: bool,
}

/// The running kernel's release.
pub fn kernel_release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

pub(crate) fn fact(name: &'static str, ok: bool, found: String, remedy: &str) -> Fact {
    Fact { name, ok, found, remedy: if ok { String::new() } else { remedy.to_owned() } }
}

fn lockdown() -> Fact {
    const SECURITYFS: &str = "/sys/kernel/security";
    const SECURITYFS_MAGIC: u64 = 0x7363_6673;
    let is_mounted =
        || rustix::fs::statfs(SECURITYFS).is_ok_and(|stat| stat.f_type as u64 == SECURITYFS_MAGIC);
    let mode = match fs::read_to_string(Path::new(SECURITYFS).join("lockdown")) {
        Ok(text) => text.split(['[', ']']).nth(1).unwrap_or("none").to_owned(),
        Err(_) if is_mounted() => "none".to_owned(),
        Err(_) => "not known: securityfs is not mounted".to_owned(),
    };
    let ok = mode != "confidentiality";
    fact(
        LOCKDOWN,
        ok,
        mode,
        "the mode 'confidentiality' forbids BPF to read kernel memory: boot with lockdown=integrity or none",
    )
}

/// What SELinux says of BPF; nothing where there is no SELinux.
fn selinux_fact(of: &Selinux, refuses_bpf: bool) -> Fact {
    let (found, remedy) = match of {
        Selinux::Permissive => ("permissive".to_owned(), String::new()),
        Selinux::Enforcing(domain) => {
            let what = if refuses_bpf { "refuses BPF to" } else { "allows BPF to" };
            let rule = domain.rule_for_bpf();
            (
                format!("enforcing, {what} {}", domain.context()),
                format!("run in a domain that may, or add to the policy: {rule}"),
            )
        }
    };
    fact(SELINUX, !refuses_bpf, found, &remedy)
}

fn facts() -> Vec<Fact> {
    let bpffs_is_mounted = bpffs::is_mounted(Path::new(bpffs::PATH));
    let cgroup = cgroup::mount();
    let jit = fs::read_to_string("/proc/sys/net/core/bpf_jit_enable").unwrap_or_default();
    let mut all = vec![
        btf::btf(),
        fact(
            "BPF JIT",
            jit.trim() != "0",
            if jit.trim() == "0" { "off".into() } else { "on".into() },
            "slower without: sysctl net.core.bpf_jit_enable=1",
        ),
        fact(
            "bpffs",
            bpffs_is_mounted,
            if bpffs_is_mounted { bpffs::PATH.into() } else { "not mounted".into() },
            "only the journal needs it, and mounts it itself: mount -t bpf bpf /sys/fs/bpf",
        ),
        fact(
            "cgroup v2",
            cgroup.is_some(),
            cgroup.map_or("not mounted".into(), |path| path.display().to_string()),
            &format!(
                "only --cgroup, --unit, --container, --pod and `tune` need it: {}",
                cgroup::remedy()
            ),
        ),
        lockdown(),
    ];
    all.extend(selinux::selinux().map(|found| {
        let refuses = matches!(found, Selinux::Enforcing(_)) && selinux::refuses_bpf();
        selinux_fact(&found, refuses)
    }));
    all.extend(privilege::facts());
    all
}

/// Every event names its connection by its cookie. It is the first program that is loaded: what is
/// refused in spite of the capabilities shows here.
fn cookies() -> Fact {
    let error = try_program("try_cookie");
    let refused = error.as_deref().is_some_and(privilege::is_refusal);
    if let Some(why) = error.as_ref().filter(|_| refused) {
        return fact(LOADING, false, why.clone(), &privilege::who_refuses());
    }
    let found = error.as_ref().map_or("in probes".into(), |why| format!("not in probes: {why}"));
    fact(COOKIES, error.is_none(), found, "the probes need Linux 5.12 or newer: it is polled here")
}

/// Which types and functions this kernel has, and which ways of attaching it allows.
struct KernelFeatures {
    /// Why it takes none of our programs, whatever privilege one has.
    unfit: Option<&'static str>,
    btf: Option<Btf<'static>>,
    /// Why attaching to functions does not work, for each way.
    function_errors: HashMap<Tier, String>,
}

impl std::hash::Hash for Tier {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (*self as u8).hash(state);
    }
}

/// Tiers to do without (`TRANSOM_WITHOUT=fentry,kprobe`), so that the lower ones can be tried on a
/// kernel that has better.
fn is_left_out(tier: Tier) -> bool {
    let names = std::env::var("TRANSOM_WITHOUT").unwrap_or_default();
    names.split(',').any(|name| name.trim() == tier.name())
}

/// Loads and attaches one empty program; what comes back is why it failed.
fn try_program(name: &str) -> Option<String> {
    let attempt = || -> Result<()> {
        let mut open = objects::feature::open()?;
        for mut program in open.progs_mut() {
            let wanted = program.name() == name;
            program.set_autoload(wanted);
        }
        let object = open.load()?;
        let _link = objects::program(&object, name)?.attach()?;
        Ok(())
    };
    attempt().err().map(|error| {
        let why = error.root_cause().to_string();
        // libbpf-rs keeps the number of the error to itself.
        let refused = why == io::Error::from_raw_os_error(selinux::REFUSED).to_string();
        match selinux::selinux() {
            Some(Selinux::Enforcing(domain)) if refused => {
                format!("{why}; SELinux: {}", domain.rule_for_probes())
            }
            _ => why,
        }
    })
}

impl KernelFeatures {
    fn new(may_load: bool, unfit: Option<&'static str>) -> KernelFeatures {
        let btf = Path::new(BTF_PATH).exists().then(|| Btf::from_vmlinux().ok()).flatten();
        let mut function_errors = HashMap::new();
        for (tier, program) in [(Tier::Fentry, "try_fentry"), (Tier::Kprobe, "try_kprobe")] {
            let error = if is_left_out(tier) {
                Some("left out by TRANSOM_WITHOUT".to_owned())
            } else if may_load {
                try_program(program)
            } else {
                Some("not tried without privilege".to_owned())
            };
            if let Some(error) = error {
                function_errors.insert(tier, error);
            }
        }
        KernelFeatures { unfit, btf, function_errors }
    }

    fn tracepoint_arguments(&self, name: &str) -> Option<usize> {
        let btf = self.btf.as_ref()?;
        let typedef: Typedef<'_> = btf.type_by_name(&format!("btf_trace_{name}"))?;
        let pointer: Ptr<'_> = typedef.next_type()?.try_into().ok()?;
        let proto: FuncProto<'_> = pointer.next_type()?.try_into().ok()?;
        Some(proto.iter().len() - 1)
    }

    fn has_function(&self, name: &str) -> bool {
        self.btf.as_ref().is_some_and(|btf| btf.type_by_name::<Func<'_>>(name).is_some())
    }

    fn lacks(&self, candidate: &Candidate) -> Option<String> {
        if let Some(why) = self.unfit {
            return Some(format!("no {why}"));
        }
        if let Some(error) = self.function_errors.get(&candidate.tier) {
            return Some(error.clone());
        }
        candidate.needs.iter().find_map(|need| match *need {
            Need::Tracepoint(name, least) => match self.tracepoint_arguments(name) {
                None => Some(format!("no tracepoint {name}")),
                Some(n) if n < least => Some(format!("tracepoint {name} tells too little")),
                Some(_) => None,
            },
            Need::Function(name) => {
                (!self.has_function(name)).then(|| format!("no function {name}"))
            }
            Need::Iterator(name) => (!self.has_function(&format!("bpf_iter_{name}")))
                .then(|| format!("no iterator {name}")),
        })
    }
}

impl Survey {
    /// Looks at the running kernel. Without privilege it says what it could not try.
    pub fn take() -> Survey {
        let mut facts = facts();
        let all_there =
            |facts: &[Fact]| facts.iter().all(|fact| fact.ok || !NEEDED.contains(&fact.name));
        if all_there(&facts) {
            facts.push(cookies());
        }
        let can_monitor = all_there(&facts);
        let has_cookies = facts.iter().all(|fact| fact.ok || fact.name != COOKIES);
        let kernel = KernelFeatures::new(can_monitor, (!has_cookies).then_some(COOKIES));
        let choices = PURPOSES
            .iter()
            .map(|purpose| {
                let (mut refused, mut chosen, mut others) = (Vec::new(), None, Vec::new());
                for candidate in purpose.candidates {
                    match kernel.lacks(candidate) {
                        Some(why) if chosen.is_none() => refused.push((candidate, why)),
                        Some(_) => {}
                        None if chosen.is_none() => chosen = Some(candidate),
                        None => others.push(candidate),
                    }
                }
                Choice { purpose, chosen, refused, others }
            })
            .collect();
        Survey { kernel: kernel_release(), facts, choices, can_monitor }
    }

    /// Names of the programs to load, without those that only these purposes need.
    pub(crate) fn programs_but(&self, purposes: &[&str]) -> Vec<&'static str> {
        self.served(purposes).into_iter().flat_map(|(_, programs)| programs).collect()
    }

    /// Purposes that are served, but these, with their programs.
    pub(crate) fn served(&self, but: &[&str]) -> Vec<(&'static str, Vec<&'static str>)> {
        let wanted = self.choices.iter().filter(|choice| !but.contains(&choice.purpose.name));
        let served = wanted.filter_map(|choice| Some((choice.purpose.name, choice.chosen?)));
        served.map(|(purpose, candidate)| (purpose, candidate.programs.to_vec())).collect()
    }

    /// The way chosen for this purpose does not work: the next one is.
    pub(crate) fn demote(&mut self, purpose: &str, why: String) {
        let Some(choice) = self.choices.iter_mut().find(|choice| choice.purpose.name == purpose)
        else {
            return;
        };
        choice.refused.extend(choice.chosen.take().map(|candidate| (candidate, why)));
        if !choice.others.is_empty() {
            choice.chosen = Some(choice.others.remove(0));
        }
    }

    /// The way chosen for a purpose.
    pub fn chosen(&self, purpose: &str) -> Option<&'static Candidate> {
        self.choices.iter().find(|choice| choice.purpose.name == purpose)?.chosen
    }

    /// Whether the probes chosen here can give an event of this kind.
    pub fn yields(&self, kind: Kind) -> bool {
        match kind {
            Kind::Algorithm | Kind::Clamp | Kind::Action => true,
            // One is the account of who records, the other is polled.
            Kind::Lost | Kind::Sample => false,
            _ => self
                .choices
                .iter()
                .any(|choice| choice.chosen.is_some() && choice.purpose.kinds.contains(&kind)),
        }
    }

    /// `ack: tracepoint, rto: fentry, …` for the trace file.
    pub fn summary(&self) -> String {
        let words = self.choices.iter().map(|choice| {
            let tier = choice.chosen.map_or("none", |candidate| candidate.tier.name());
            format!("{}={tier}", choice.purpose.name)
        });
        words.collect::<Vec<_>>().join(" ")
    }

    /// What keeps the monitor from running, in short.
    pub fn missing(&self) -> String {
        let obstacles = self.obstacles();
        let mut words: Vec<_> = obstacles.iter().filter_map(|fact| fact.refusal()).collect();
        let missing = obstacles.iter().filter(|fact| fact.refusal().is_none());
        let names: Vec<_> = missing.map(|fact| fact.name).collect();
        if !names.is_empty() {
            words.push(format!("{} missing", names.join(", ")));
        }
        words.join("; ")
    }

    /// Why the monitor cannot run, and what to do.
    pub fn obstacles(&self) -> Vec<&Fact> {
        self.facts.iter().filter(|fact| !fact.ok && NEEDED.contains(&fact.name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_that_refuses_bpf_is_named_with_its_rule() {
        let enforcing = selinux::Domain::named("u:r:shell:s0");
        let refused = selinux_fact(&Selinux::Enforcing(enforcing.clone()), true);
        assert!(!refused.ok);
        assert_eq!(refused.lack(), "SELinux enforcing, refuses BPF to u:r:shell:s0");
        assert!(refused.remedy.ends_with(&enforcing.rule_for_bpf()), "{}", refused.remedy);

        let allowed = selinux_fact(&Selinux::Enforcing(enforcing), false);
        assert!(allowed.ok && allowed.remedy.is_empty());
        assert!(selinux_fact(&Selinux::Permissive, false).ok);
    }
}
