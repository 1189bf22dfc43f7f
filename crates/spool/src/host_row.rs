//! What the shipper says of its machine: so that rows of connections can be told apart by it.

use crate::column::{Text, Time};
use crate::columns;

/// One row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostRow {
    pub time: Time,
    pub kernel: Option<Text>,
    pub architecture: Option<Text>,
    pub cpus: Option<u64>,
    pub memory: Option<u64>,
    pub version: Option<Text>,
    pub agent_version: Option<Text>,
    pub source: Option<Text>,
    pub prefixes: Option<Text>,
    pub addresses: Option<Text>,
    pub labels: Option<Text>,
    pub congestion_control: Option<Text>,
    pub default_qdisc: Option<Text>,
    pub tcp_rmem_max: Option<u64>,
    pub tcp_wmem_max: Option<u64>,
    pub tcp_notsent_lowat: Option<u64>,
    pub tcp_ecn: Option<u64>,
    pub tcp_mtu_probing: Option<u64>,
    pub tcp_sack: Option<u64>,
    pub tcp_slow_start_after_idle: Option<u64>,
    pub tcp_timestamps: Option<u64>,
    pub tcp_window_scaling: Option<u64>,
    pub somaxconn: Option<u64>,
}

columns! { HostRow {
    time, "µs", "when the machine was looked at", Technical;
    kernel, "", "its release (uname)", Technical;
    architecture, "", "as `x86_64` (uname)", Technical;
    cpus, "", "that are online (/sys/devices/system/cpu/online)", Technical;
    memory, "B", "that the kernel can use (sysinfo)", Technical;
    version, "", "of `transom-fleet`", Technical;
    agent_version, "", "of the agent that wrote the newest file of connections", Technical;
    source, "", "`probes` or `sock_diag`, if all rows of that file have the same", Technical;
    prefixes, "", "/24 and /48 of the machine's own global addresses, sorted, separated by spaces", Personal;
    addresses, "", "the addresses themselves; null unless `addresses = \"full\"`", Address;
    labels, "", "given by `--label`: `KEY=VALUE`, sorted by the key, separated by `;`", Technical;
    congestion_control, "", "of new sockets (net.ipv4.tcp_congestion_control)", Technical;
    default_qdisc, "", "(net.core.default_qdisc)", Technical;
    tcp_rmem_max, "B", "largest receive buffer, the third number of net.ipv4.tcp_rmem", Technical;
    tcp_wmem_max, "B", "largest send buffer, the third number of net.ipv4.tcp_wmem", Technical;
    tcp_notsent_lowat, "B", "(net.ipv4.tcp_notsent_lowat)", Technical;
    tcp_ecn, "", "(net.ipv4.tcp_ecn)", Technical;
    tcp_mtu_probing, "", "(net.ipv4.tcp_mtu_probing)", Technical;
    tcp_sack, "", "(net.ipv4.tcp_sack)", Technical;
    tcp_slow_start_after_idle, "", "(net.ipv4.tcp_slow_start_after_idle)", Technical;
    tcp_timestamps, "", "(net.ipv4.tcp_timestamps)", Technical;
    tcp_window_scaling, "", "(net.ipv4.tcp_window_scaling)", Technical;
    somaxconn, "", "most connections that wait for accept() of a socket (net.core.somaxconn)", Technical;
} }
