//! Namespaces joined by veth pairs, for what happens in devices and queues.

use super::Namespace;

/// Two hosts, directly connected or through a router; the sender is 10.78.1.1
/// (fd78:1::1), the receiver 10.78.2.1 (fd78:2::1).
pub struct Wire {
    pub sender: Namespace,
    pub router: Namespace,
    pub receiver: Namespace,
}

fn connect(host: &Namespace, router: &Namespace, net: u8) {
    let (near, far) = ("eth0", format!("port{net}"));
    host.ip(&format!("link add name {near} type veth peer name {far} netns {}", router.name()));
    for (namespace, device, number) in [(host, near, 1), (router, far.as_str(), 254)] {
        namespace.ip(&format!("addr add 10.78.{net}.{number}/24 dev {device}"));
        namespace.ip(&format!("addr add fd78:{net}::{number}/64 dev {device} nodad"));
        namespace.ip(&format!("link set {device} up"));
    }
    host.ip(&format!("route add default via 10.78.{net}.254"));
    host.ip(&format!("-6 route add default via fd78:{net}::254"));
}

impl Default for Wire {
    fn default() -> Wire {
        Wire::new()
    }
}

impl Wire {
    pub fn new() -> Wire {
        let (sender, router, receiver) =
            (Namespace::new("sender"), Namespace::new("router"), Namespace::new("receiver"));
        connect(&sender, &router, 1);
        connect(&receiver, &router, 2);
        router.sysctl("net/ipv4/ip_forward", "1");
        router.sysctl("net/ipv6/conf/all/forwarding", "1");
        Wire { sender, router, receiver }
    }

    /// The sender's interface goes, and comes back under its name, with another index.
    pub fn replug(&self) {
        self.sender.ip("link del eth0");
        connect(&self.sender, &self.router, 1);
    }
}
