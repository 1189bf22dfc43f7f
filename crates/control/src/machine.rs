//! What this machine could be set to, beyond what it is set to.

use std::fs;

use crate::steady;

/// Algorithms that a module which is not loaded would add, by the kernel's list of its modules.
pub fn loadable_algorithms() -> Vec<String> {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy();
    let modules = fs::read_to_string(format!("/lib/modules/{release}/modules.dep"));
    let available = steady::available();
    let mut names = algorithms_in(&modules.unwrap_or_default());
    names.retain(|name| !available.contains(name));
    names
}

/// `kernel/net/ipv4/tcp_bbr.ko.xz: …` is bbr; not every `tcp_` is an algorithm (`tcp_diag`).
fn algorithms_in(modules: &str) -> Vec<String> {
    let files = modules.lines().filter_map(|line| line.split(':').next());
    let names = files.filter_map(|file| {
        let (_, name) = file.rsplit_once("net/ipv4/tcp_")?;
        let (name, _) = name.split_once(".ko")?;
        (name != "diag").then(|| name.to_owned())
    });
    names.collect()
}

/// `net.ipv4.tcp_wmem` here: least, initial and largest automatic send buffer, bytes.
pub fn send_memory() -> Option<[u64; 3]> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/tcp_wmem").ok()?;
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|it| it.parse().ok()).collect();
    numbers.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn algorithms_are_modules_of_tcp_that_do_not_only_report() {
        let list = "kernel/net/ipv4/tcp_bbr.ko.xz:\n\
                    kernel/net/ipv4/tcp_diag.ko: kernel/net/ipv4/inet_diag.ko\n\
                    kernel/net/ipv4/tcp_westwood.ko:\n\
                    kernel/net/ipv4/netfilter/nf_tcp_x.ko: kernel/net/ipv4/tcp_no.txt\n";
        assert_eq!(algorithms_in(list), ["bbr", "westwood"]);
    }
}
