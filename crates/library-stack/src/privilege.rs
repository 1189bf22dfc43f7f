//! What the kernel must allow for packets of the host's interfaces to become the library's.

use anyhow::{Context, Result, bail};

/// linux/capability.h: packet sockets; filters on interfaces, neighbours; programs of BPF.
const NEEDED: [(u32, &str); 3] = [(13, "CAP_NET_RAW"), (12, "CAP_NET_ADMIN"), (39, "CAP_BPF")];
/// Does for CAP_BPF, as it did before Linux 5.8.
const CAP_SYS_ADMIN: u32 = 21;

/// All that is missing, at once: told before anything is begun.
pub fn check() -> Result<()> {
    let status = std::fs::read_to_string("/proc/self/status").context("/proc/self/status")?;
    let missing = missing(effective(&status).context("no CapEff in /proc/self/status")?);
    if missing.is_empty() {
        return Ok(());
    }
    bail!(
        "no privilege {}: --stack linux takes packets from the host's interfaces; run it as root, \
         or once: setcap cap_net_raw,cap_net_admin,cap_bpf+ep transom-netstack",
        missing.join(", ")
    )
}

/// `CapEff: 000001ffffffffff` of proc_pid_status(5).
fn effective(status: &str) -> Option<u64> {
    let field = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(field.trim(), 16).ok()
}

fn missing(effective: u64) -> Vec<&'static str> {
    let has = |capability: u32| effective >> capability & 1 != 0;
    let needed = NEEDED
        .iter()
        .filter(|(number, name)| !(has(*number) || *name == "CAP_BPF" && has(CAP_SYS_ADMIN)));
    needed.map(|(_, name)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::{effective, missing};

    #[test]
    fn what_is_missing_is_named() {
        let of =
            |field: &str| missing(effective(&format!("Name:\tx\nCapEff:\t{field}\n")).unwrap());
        assert!(of("000001ffffffffff").is_empty());
        assert_eq!(of("0000000000000000"), ["CAP_NET_RAW", "CAP_NET_ADMIN", "CAP_BPF"]);
        assert_eq!(of("0000008000001000"), ["CAP_NET_RAW"]);
        assert!(of("0000000000203000").is_empty(), "CAP_SYS_ADMIN does for CAP_BPF");
        assert_eq!(effective("CapInh:\t0\n"), None);
    }
}
