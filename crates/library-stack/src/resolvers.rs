//! Nameservers of this host on the host itself, as `systemd-resolved`, `dnsmasq` and Docker have one. The
//! library has the same addresses, but nobody listens there: whoever asks them is told what helps.

use std::fs;
use std::net::{IpAddr, SocketAddr};

use transom_output::note;

const FILE: &str = "/etc/resolv.conf";
const PORT: u16 = 53;

pub struct Resolvers {
    /// Those of the host's own, as far as nothing was said of them.
    unsaid: Vec<IpAddr>,
}

impl Resolvers {
    /// As resolv.conf(5) names them. `own`: addresses of the library.
    pub fn of_host(own: &[IpAddr]) -> Self {
        Self { unsaid: on_this_host(&fs::read_to_string(FILE).unwrap_or_default(), own) }
    }

    /// The program sends there.
    pub fn asked(&mut self, at: Option<SocketAddr>) {
        let Some(ip) = at.filter(|at| at.port() == PORT).map(|at| at.ip().to_canonical()) else {
            return;
        };
        if self.unsaid.contains(&ip) {
            self.unsaid.clear();
            note!(
                "transom run: names are resolved by {ip}, which is this host itself: from the library \
                 its servers cannot be reached: add --udp host"
            );
        }
    }
}

fn on_this_host(text: &str, own: &[IpAddr]) -> Vec<IpAddr> {
    let words = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let named = words.filter_map(|words| match words[..] {
        ["nameserver", address, ..] => address.parse::<IpAddr>().ok(),
        _ => None,
    });
    named.filter(|ip| ip.is_loopback() || own.contains(ip)).collect()
}

#[cfg(test)]
mod tests {
    use super::on_this_host;

    #[test]
    fn only_nameservers_of_this_host_are_out_of_reach() {
        let text = "# made by hand\nnameserver 127.0.0.53\nnameserver 192.0.2.53\n\
            options edns0\nnameserver\t10.70.0.1 # ours\nnameserver ::1\nnameserver fe80::1%eth0\n";
        let own = "10.70.0.1".parse().expect("an address");
        let found = on_this_host(text, &[own]).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(found, ["127.0.0.53", "10.70.0.1", "::1"]);
        assert!(on_this_host("", &[own]).is_empty());
    }
}
