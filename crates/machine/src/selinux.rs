//! SELinux where it enforces, as on every phone: what it refuses to this process, and the rule that
//! would allow it.

use std::path::Path;
use std::{fs, io, ptr};

use libbpf_rs::libbpf_sys;
use rustix::fd::{FromRawFd, OwnedFd};

/// What loading and reading programs and maps asks for.
const BPF: &str = "bpf { map_create map_read map_write prog_load prog_run }";
/// What attaching to a kprobe asks for.
const PERF_EVENT: &str = "perf_event { open cpu kernel tracepoint read write }";

const MOUNTED_AT: &str = "/sys/fs/selinux";
const OWN_CONTEXT: &str = "/proc/self/attr/current";

/// The domain of this process, as a policy that is enforced sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    context: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selinux {
    /// It says what it would refuse, and refuses nothing.
    Permissive,
    Enforcing(Domain),
}

/// How SELinux stands here; `None` where there is none.
pub fn selinux() -> Option<Selinux> {
    of(Path::new(MOUNTED_AT), Path::new(OWN_CONTEXT))
}

fn of(mounted_at: &Path, own_context: &Path) -> Option<Selinux> {
    let enforces = match fs::read_to_string(mounted_at.join("enforce")) {
        Ok(text) => text.trim() == "1",
        // That it may not even be asked is its own doing.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => true,
        Err(_) => return None,
    };
    if !enforces {
        return Some(Selinux::Permissive);
    }
    let context = fs::read_to_string(own_context).unwrap_or_default();
    Some(Selinux::Enforcing(Domain::named(&context)))
}

impl Domain {
    /// A context as SELinux writes it.
    pub fn named(context: &str) -> Domain {
        Domain { context: context.trim_end_matches(['\0', '\n']).to_owned() }
    }

    /// `u:r:shell:s0`: user, role, type and level.
    pub fn context(&self) -> &str {
        if self.context.is_empty() { "a context that it hides" } else { &self.context }
    }

    fn allow(&self, what: &str) -> String {
        let name = self.context.split(':').nth(2).unwrap_or("DOMAIN");
        format!("allow {name} self:{what};")
    }

    /// The rule that lets this domain use BPF.
    pub fn rule_for_bpf(&self) -> String {
        self.allow(BPF)
    }

    /// The rule that lets this domain attach to kprobes.
    pub fn rule_for_probes(&self) -> String {
        self.allow(PERF_EVENT)
    }
}

/// Whether the policy refuses `bpf()` to this process: asked with one map and one program, which are
/// gone at once. The capabilities of the process answer with another error.
pub fn refuses_bpf() -> bool {
    [new_map(), new_program()].into_iter().any(|made| is_refusal(&made))
}

/// What SELinux answers. Whoever lacks a capability gets EPERM.
pub const REFUSED: i32 = libc::EACCES;

fn is_refusal<T>(made: &io::Result<T>) -> bool {
    made.as_ref().is_err_and(|error| error.raw_os_error() == Some(REFUSED))
}

fn new_map() -> io::Result<OwnedFd> {
    // SAFETY: no name and no options; an array with one entry.
    let fd = unsafe {
        libbpf_sys::bpf_map_create(
            libbpf_sys::BPF_MAP_TYPE_ARRAY,
            ptr::null(),
            size_of::<u32>() as u32,
            size_of::<u32>() as u32,
            1,
            ptr::null(),
        )
    };
    owned(fd)
}

fn new_program() -> io::Result<OwnedFd> {
    let instruction = |code: u32| libbpf_sys::bpf_insn { code: code as u8, ..Default::default() };
    // `r0 = 0; exit`
    let nothing = [
        instruction(libbpf_sys::BPF_ALU64 | libbpf_sys::BPF_MOV),
        instruction(libbpf_sys::BPF_JMP | libbpf_sys::BPF_EXIT),
    ];
    // SAFETY: the instructions live until the call returns; no name and no options.
    let fd = unsafe {
        libbpf_sys::bpf_prog_load(
            libbpf_sys::BPF_PROG_TYPE_SOCKET_FILTER,
            ptr::null(),
            c"GPL".as_ptr(),
            nothing.as_ptr(),
            nothing.len() as _,
            ptr::null_mut(),
        )
    };
    owned(fd)
}

/// The descriptor that libbpf made, or the error that it returns negated.
fn owned(fd: i32) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: new, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(enforce: Option<&str>, context: &str) -> Option<Selinux> {
        let folder = tempfile::tempdir().unwrap();
        if let Some(text) = enforce {
            fs::write(folder.path().join("enforce"), text).unwrap();
        }
        let own = folder.path().join("current");
        fs::write(&own, context).unwrap();
        of(folder.path(), &own)
    }

    #[test]
    fn a_refusal_is_named_with_the_rule_that_would_allow_it() {
        let Some(Selinux::Enforcing(domain)) = with(Some("1"), "u:r:shell:s0\0") else {
            panic!("it enforces");
        };
        assert_eq!(domain.context(), "u:r:shell:s0");
        assert_eq!(
            domain.rule_for_bpf(),
            "allow shell self:bpf { map_create map_read map_write prog_load prog_run };"
        );
        assert_eq!(
            domain.rule_for_probes(),
            "allow shell self:perf_event { open cpu kernel tracepoint read write };"
        );
    }

    #[test]
    fn a_desktop_has_other_contexts_and_the_same_rules() {
        let context = "unconfined_u:unconfined_r:unconfined_t:s0-s0:c0.c1023\n";
        let Some(Selinux::Enforcing(domain)) = with(Some("1\n"), context) else {
            panic!("it enforces");
        };
        assert!(domain.rule_for_bpf().starts_with("allow unconfined_t self:bpf {"));
    }

    #[test]
    fn where_it_does_not_enforce_it_refuses_nothing() {
        assert_eq!(with(Some("0"), "u:r:shell:s0"), Some(Selinux::Permissive));
        assert_eq!(with(None, "unconfined"), None);
    }

    #[test]
    fn a_missing_capability_is_no_refusal_of_selinux() {
        let failed = |errno| io::Result::<()>::Err(io::Error::from_raw_os_error(errno));
        assert!(is_refusal(&failed(libc::EACCES)));
        assert!(!is_refusal(&failed(libc::EPERM)));
        assert!(!is_refusal(&failed(libc::ENOSYS)));
        assert!(!is_refusal(&Ok(())));
    }
}
