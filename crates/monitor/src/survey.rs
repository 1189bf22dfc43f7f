//! What this kernel lets us do, purpose by purpose, without leaving a trace.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use anyhow::Result;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Func, FuncProto, Ptr, Typedef};
use transom_machine::{bpffs, cgroup, objects};

use crate::probes::{Candidate, Need, PURPOSES, Purpose, Tier};

/// Where the kernel tells its types.
pub const BTF_PATH: &str = "/sys/kernel/btf/vmlinux";

/// Capabilities the monitor needs, with their numbers (`capabilities(7)`).
const CAPABILITIES: &[(&str, u32, &str)] = &[
    ("CAP_BPF", 39, "load programs and maps"),
    ("CAP_PERFMON", 38, "attach to tracepoints and read kernel memory"),
    ("CAP_NET_ADMIN", 12, "read the sockets of others"),
    ("CAP_SYS_ADMIN", 21, "enter other network namespaces; mount bpffs for the journal"),
];

/// One thing that is there or not, with what to do if not.
#[derive(Clone, Debug)]
pub struct Fact {
    pub name: &'static str,
    pub ok: bool,
    pub found: String,
    /// Why it matters and how to get it; empty when it is there.
    pub remedy: String,
}

/// How one purpose is served.
#[derive(Debug)]
pub struct Choice {
    pub purpose: &'static Purpose,
    pub chosen: Option<&'static Candidate>,
    /// The better ways that do not work here, and why.
    pub refused: Vec<(&'static Candidate, String)>,
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

fn effective_capabilities() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0)
}

fn fact(name: &'static str, ok: bool, found: String, remedy: &str) -> Fact {
    Fact { name, ok, found, remedy: if ok { String::new() } else { remedy.to_owned() } }
}

fn capability_facts() -> Vec<Fact> {
    let have = effective_capabilities();
    CAPABILITIES
        .iter()
        .map(|&(name, bit, purpose)| {
            let ok = have & (1 << bit) != 0;
            let found = if ok { "yes" } else { "no" };
            fact(name, ok, found.into(), &format!("needed to {purpose}: run as root (sudo)"))
        })
        .collect()
}

fn lockdown() -> Fact {
    let text = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    let mode = text.split(['[', ']']).nth(1).unwrap_or("none").to_owned();
    let ok = mode != "confidentiality";
    fact(
        "lockdown",
        ok,
        mode,
        "the mode 'confidentiality' forbids BPF to read kernel memory: boot with lockdown=integrity or none",
    )
}

fn facts() -> Vec<Fact> {
    let btf = Path::new(BTF_PATH);
    let bpffs_is_mounted = bpffs::is_mounted(Path::new(bpffs::PATH));
    let cgroup = cgroup::mount();
    let jit = fs::read_to_string("/proc/sys/net/core/bpf_jit_enable").unwrap_or_default();
    let mut all = vec![
        fact(
            "BTF",
            btf.exists(),
            if btf.exists() { BTF_PATH.into() } else { "missing".into() },
            "the kernel must be built with CONFIG_DEBUG_INFO_BTF=y (Debian's since 11, Android's since 6.1)",
        ),
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
            &format!("only --cgroup and `tune` need it: {}", cgroup::REMEDY),
        ),
        lockdown(),
    ];
    all.extend(capability_facts());
    all
}

/// Which types and functions this kernel has, and which ways of attaching it allows.
struct KernelFeatures {
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
    attempt().err().map(|error| error.root_cause().to_string())
}

impl KernelFeatures {
    fn new(may_load: bool) -> KernelFeatures {
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
        KernelFeatures { btf, function_errors }
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
        if let Some(error) = self.function_errors.get(&candidate.tier) {
            return Some(format!("{}: {error}", candidate.tier));
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
        let facts = facts();
        let has = |name: &str| facts.iter().any(|fact| fact.name == name && fact.ok);
        let privileged = has("CAP_BPF") && has("CAP_PERFMON");
        let can_monitor = has("BTF") && privileged && has("lockdown");
        let kernel = KernelFeatures::new(can_monitor);
        let choices = PURPOSES
            .iter()
            .map(|purpose| {
                let mut refused = Vec::new();
                let chosen =
                    purpose.candidates.iter().find(|candidate| match kernel.lacks(candidate) {
                        None => true,
                        Some(why) => {
                            refused.push((*candidate, why));
                            false
                        }
                    });
                Choice { purpose, chosen, refused }
            })
            .collect();
        Survey { kernel: kernel_release(), facts, choices, can_monitor }
    }

    /// Names of the programs to load.
    pub fn programs(&self) -> Vec<&'static str> {
        self.programs_but(&[])
    }

    /// The same without those that only these purposes need.
    pub fn programs_but(&self, purposes: &[&str]) -> Vec<&'static str> {
        let wanted = self.choices.iter().filter(|choice| !purposes.contains(&choice.purpose.name));
        let chosen = wanted.filter_map(|choice| choice.chosen);
        chosen.flat_map(|candidate| candidate.programs.iter().copied()).collect()
    }

    /// The way chosen for a purpose.
    pub fn chosen(&self, purpose: &str) -> Option<&'static Candidate> {
        self.choices.iter().find(|choice| choice.purpose.name == purpose)?.chosen
    }

    /// `ack: tracepoint, rto: fentry, …` for the trace file.
    pub fn summary(&self) -> String {
        let words = self.choices.iter().map(|choice| {
            let tier = choice.chosen.map_or("none", |candidate| candidate.tier.name());
            format!("{}={tier}", choice.purpose.name)
        });
        words.collect::<Vec<_>>().join(" ")
    }

    /// Why the monitor cannot run, and what to do.
    pub fn obstacles(&self) -> Vec<&Fact> {
        const NEEDED: &[&str] = &["BTF", "lockdown", "CAP_BPF", "CAP_PERFMON"];
        self.facts.iter().filter(|fact| !fact.ok && NEEDED.contains(&fact.name)).collect()
    }
}
