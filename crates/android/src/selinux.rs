//! What SELinux is on the device, and what it has denied our program.

use anyhow::Result;

use crate::device::Device;
use crate::root::Root;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selinux {
    is_enforcing: Option<bool>,
    context: Option<String>,
}

impl Selinux {
    /// From `getenforce`, /sys/fs/selinux/enforce and /proc/self/attr/current.
    pub(crate) fn of(tool: Option<&str>, file: Option<&str>, context: Option<&str>) -> Selinux {
        let is_enforcing = match (tool, file) {
            (Some("Enforcing"), _) | (None, Some("1")) => Some(true),
            (Some("Permissive"), _) | (None, Some("0")) => Some(false),
            _ => None,
        };
        Selinux { is_enforcing, context: context.map(str::to_owned) }
    }

    pub fn is_enforcing(&self) -> bool {
        self.is_enforcing == Some(true)
    }

    pub fn words(&self) -> String {
        let state = match self.is_enforcing {
            Some(true) => "enforcing",
            Some(false) => "permissive",
            None => return "none".into(),
        };
        match &self.context {
            Some(context) => format!("{state}, {context}"),
            None => state.into(),
        }
    }
}

/// The newest denials of our program in the kernel's log, which only root may read.
pub fn denials(device: &Device, root: Root) -> Result<Vec<String>> {
    let answer = device.shell(&root.script("dmesg"))?;
    Ok(of_log(&answer.out))
}

fn of_log(log: &str) -> Vec<String> {
    const NEWEST: usize = 3;
    let ours = log.lines().filter(|line| {
        line.contains("avc:") && line.contains(" denied ") && line.contains("comm=\"transom\"")
    });
    let ours: Vec<String> = ours.filter_map(denial).collect();
    ours[ours.len().saturating_sub(NEWEST)..].to_vec()
}

/// `{ prog_load } for u:r:shell:s0, class bpf`.
fn denial(line: &str) -> Option<String> {
    let value = |key: &str| {
        line.split_whitespace().find_map(|word| word.strip_prefix(key)).map(str::to_owned)
    };
    let (_, rest) = line.split_once('{')?;
    let (what, _) = rest.split_once('}')?;
    Some(format!("{{{what}}} for {}, class {}", value("scontext=")?, value("tclass=")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_told_by_the_tool_or_the_file() {
        let of = |tool, file| Selinux::of(tool, file, Some("u:r:su:s0"));
        assert_eq!(of(Some("Permissive"), None).words(), "permissive, u:r:su:s0");
        assert!(of(None, Some("1")).is_enforcing());
        assert_eq!(of(None, None).words(), "none");
        assert_eq!(of(Some("Disabled"), None).words(), "none");
    }

    #[test]
    fn denials_of_our_program_are_found_and_others_are_not() {
        let log = r#"[  1.2] audit: type=1400 audit(1.0:7): avc:  denied  { prog_load } for  pid=81 comm="transom" scontext=u:r:shell:s0 tcontext=u:r:shell:s0 tclass=bpf permissive=0
[  1.3] audit: type=1400 audit(1.0:8): avc:  denied  { read } for  pid=9 comm="logd" scontext=u:r:logd:s0 tcontext=u:r:x:s0 tclass=file permissive=0
[  1.4] avc: granted { x } for comm="transom" scontext=a tclass=b"#;
        assert_eq!(of_log(log), ["{ prog_load } for u:r:shell:s0, class bpf"]);
    }
}
