//! A fleet that is known: rows as the agent would have left them, and an independent count of what
//! they must answer. One seed gives one fleet; any host's hour is made without the others.

use std::collections::BTreeMap;

use transom_spool::{
    AgentEvent, AgentRow, Cause, Connection, Direction, Ended, HostRow, RowKind, Source, Text,
    Time, Verdict,
};

pub const HOUR_US: i64 = 3_600_000_000;
/// 2026-11-23 12:00 UTC.
pub const NOON: i64 = 1_795_435_200_000_000;
const SEGMENT: u64 = 1448;

/// Small, fast, and the same on every machine (SplitMix64).
pub struct Random(u64);

impl Random {
    pub fn of(parts: &[u64]) -> Random {
        let mut random = Random(0);
        for part in parts {
            random.0 ^= *part;
            random.0 = random.next();
        }
        random
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0 up to 1.
    pub fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        (self.share() * bound as f64) as u64
    }

    pub fn chance(&mut self, of: f64) -> bool {
        self.share() < of
    }

    /// About this, mostly within a factor of e, now and then far above.
    fn spread(&mut self, around: f64, sigma: f64) -> f64 {
        let normal = (-2.0 * self.share().max(1e-12).ln()).sqrt()
            * (std::f64::consts::TAU * self.share()).cos();
        around * (sigma * normal).exp()
    }

    fn poisson(&mut self, mean: f64) -> u64 {
        if mean > 30.0 {
            return self.spread(mean, 1.0 / mean.sqrt()).round() as u64;
        }
        let (limit, mut product, mut count) = ((-mean).exp(), self.share(), 0);
        while product > limit {
            product *= self.share();
            count += 1;
        }
        count
    }
}

/// What is wrong in this fleet; all `None` or false is a fleet in which nothing is.
#[derive(Clone, Debug, Default)]
pub struct Wrong {
    /// This prefix's path loses one segment in twenty.
    pub losing_prefix: Option<u64>,
    /// This prefix's programs do not read, in the second hour.
    pub full_receiver: Option<u64>,
    /// This host loses to everyone, in the second hour.
    pub losing_host: Option<u64>,
    /// Paths between hosts are long, and lose.
    pub losing_pairs: bool,
    /// From the third hour on hosts with even numbers retransmit half as much.
    pub change: bool,
    /// This host's agent is over its budget, and lost rows.
    pub poor_agent: Option<u64>,
    /// So many agents, from the first host on, are so far over it that new connections have no rows.
    pub counting_agents: u64,
    /// Each row has the prefix of another: what was wrong with one is no longer to be found.
    pub shuffled: bool,
}

#[derive(Clone, Debug)]
pub struct Fleet {
    pub seed: u64,
    pub hosts: u64,
    pub hours: u64,
    /// Each hour on each host, beside those between hosts.
    pub connections: u64,
    pub prefixes: u64,
    /// Connections of each host to its neighbour each hour.
    pub pairs: u64,
    pub wrong: Wrong,
}

pub fn host_name(host: u64) -> String {
    format!("web-{host:05}")
}

pub fn boot_of(host: u64) -> String {
    let mut random = Random::of(&[0xb007, host]);
    format!("{:016x}{:016x}", random.next(), random.next())
}

/// From the range of RFC 2544, and for large fleets from 10/8.
pub fn prefix_name(prefix: u64) -> String {
    match prefix {
        0..512 => format!("198.{}.{}.0/24", 18 + prefix / 256, prefix % 256),
        _ => format!("10.{}.{}.0/24", prefix / 256 % 256, prefix % 256),
    }
}

/// How many files an agent finishes in an hour.
#[allow(dead_code, reason = "tests write an hour as one file")]
pub const FILES: i64 = 12;

/// The rows of an hour as the agent would have left them in files.
#[allow(dead_code, reason = "tests write an hour as one file")]
pub fn by_file(rows: Vec<Connection>, hour: u64) -> Vec<Vec<Connection>> {
    let mut files = vec![Vec::new(); FILES as usize];
    for row in rows {
        let into_hour = row.time.0 - NOON - hour as i64 * HOUR_US;
        let file = into_hour.div_euclid(HOUR_US / FILES).clamp(0, FILES - 1);
        files[file as usize].push(row);
    }
    files
}

/// What the rows must answer, counted while they are made.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Truth {
    pub rows: u64,
    /// prefix → connections, data segments, retransmissions.
    pub prefixes: BTreeMap<String, (u64, u64, u64)>,
    /// `hour service verdict` → connections; the hour in µs since 1970.
    pub verdicts: BTreeMap<String, u64>,
    /// `role verdict` → connections; the role as of the machine's last row.
    pub roles: BTreeMap<String, u64>,
    /// `host cookie` of those of the full receiver whose window was full.
    pub held_by_receiver: Vec<String>,
    /// `cookie here, cookie there, segments lost between`.
    pub pairs: Vec<(u64, u64, u64)>,
}

impl Fleet {
    /// All rows of a host's hour, in the order in which the agent would have written them.
    pub fn counted(&self, host: u64, hour: u64, truth: &mut Truth) -> Vec<Connection> {
        let mut random = Random::of(&[self.seed, host, hour]);
        let mut rows = Vec::with_capacity(self.connections as usize + 8);
        for n in 0..self.connections {
            let row = self.customer(host, hour, n, &mut random);
            if random.chance(0.04) && row.duration_us.is_some_and(|us| us > 2_000_000) {
                rows.push(interim_of(&row));
            }
            rows.push(row);
        }
        if self.wrong.shuffled {
            for n in (1..rows.len()).rev() {
                let other = rows[random.below(n as u64 + 1) as usize].remote_prefix.clone();
                rows[n].remote_prefix = other;
            }
        }
        for n in 0..self.pairs {
            let (here, there, lost) = self.pair(host, hour, n);
            truth.pairs.push((here.cookie, there.cookie, lost));
            rows.push(here);
            rows.push(self.pair((host + self.hosts - 1) % self.hosts, hour, n).1);
        }
        rows.sort_by_key(|row| row.time);
        truth.count(&rows, host, self.wrong.full_receiver.map(prefix_name));
        rows
    }

    fn customer(&self, host: u64, hour: u64, n: u64, random: &mut Random) -> Connection {
        // A few prefixes have most of the connections.
        let prefix = (self.prefixes as f64 * random.share().powi(2)) as u64;
        let (service, interface) = SERVICES[random.below(SERVICES.len() as u64) as usize];
        let size = random.spread(60_000.0, 1.4) as u64 + 500;
        let mut path = Path::of(self.seed, prefix);
        if self.wrong.losing_prefix == Some(prefix) {
            path.loss = 0.05;
        }
        if self.wrong.losing_host == Some(host) && hour == 1 {
            path.loss += 0.05;
        }
        if self.wrong.change && hour >= 2 && host.is_multiple_of(2) {
            path.loss *= 0.5;
        }
        let full = self.wrong.full_receiver == Some(prefix) && hour == 1;
        let limit = match random.share() {
            _ if full => Limit::Receiver,
            x if x < 0.45 => Limit::Application,
            x if x < 0.48 => Limit::Receiver,
            x if x < 0.49 => Limit::SendBuffer,
            x if x < 0.55 => Limit::Queue,
            _ => Limit::Window,
        };
        let mut row = Connection {
            time: self.moment(hour, random),
            cookie: host << 40 | hour << 32 | (n + 1),
            direction: Direction::Accept,
            service,
            local_port: service,
            remote_port: 32_768 + random.below(28_000) as u16,
            remote_prefix: Some(prefix_name(prefix).into()),
            remote_tag: Some(random.next()),
            interface: Some(interface.into()),
            program: Some("nginx".into()),
            ..common(host)
        };
        transfer(&mut row, size, &path, limit, random);
        row.verdict = Verdict::of(&row).cause;
        row.verdict_share = Verdict::of(&row).share;
        row
    }

    fn moment(&self, hour: u64, random: &mut Random) -> Time {
        Time(NOON + hour as i64 * HOUR_US + random.below(HOUR_US as u64) as i64)
    }

    /// A connection from this host to the next: as both have it, and what was lost between them.
    /// Hosts with even numbers and their neighbours have addresses, the others only prefixes.
    fn pair(&self, host: u64, hour: u64, n: u64) -> (Connection, Connection, u64) {
        let next = (host + 1) % self.hosts;
        let mut random = Random::of(&[self.seed, 0x9a15, host, hour, n]);
        let path = match self.wrong.losing_pairs {
            true => Path { rtt_us: 20_000.0, loss: 0.03 },
            false => Path { rtt_us: 400.0, loss: 0.002 },
        };
        let known = host.is_multiple_of(2);
        let address = |of: u64| known.then(|| Text::from(internal(of)));
        let prefix = |of: u64| Some(Text::from(format!("10.200.{}.0/24", of / 250 % 250)));
        let mut here = Connection {
            time: self.moment(hour, &mut random),
            cookie: host << 40 | hour << 32 | 1 << 28 | n,
            direction: Direction::Connect,
            service: 5432,
            local_port: 32_768 + random.below(28_000) as u16,
            remote_port: 5432,
            remote_prefix: prefix(next),
            local_address: address(host),
            remote_address: address(next),
            program: Some("app".into()),
            ..common(host)
        };
        let size = random.spread(200_000.0, 1.0) as u64 + 20_000;
        transfer(&mut here, size, &path, Limit::Window, &mut random);
        here.bytes_received = random.below(30_000);
        here.data_segments_received = here.bytes_received.div_ceil(SEGMENT) as u32;
        here.verdict = Verdict::of(&here).cause;
        let lost = here.retransmitted.into();
        let there = Connection {
            time: Time(here.time.0 + random.below(40_000) as i64),
            cookie: next << 40 | hour << 32 | 2 << 28 | n,
            direction: Direction::Accept,
            service: 5432,
            local_port: 5432,
            remote_port: here.local_port,
            remote_prefix: prefix(host),
            local_address: here.remote_address.clone(),
            remote_address: here.local_address.clone(),
            program: Some("postgres".into()),
            bytes_received: here.bytes_acked,
            bytes_acked: here.bytes_received,
            bytes_sent: here.bytes_received,
            data_segments_received: here.data_segments_sent - here.retransmitted,
            data_segments_sent: here.data_segments_received,
            duration_us: here.duration_us,
            ended: Ended::ClosedThere,
            verdict: Cause::OtherSide,
            ..common(next)
        };
        (here, there, lost)
    }

    /// What a host's agent says of itself.
    pub fn agent(&self, host: u64, hour: u64) -> Vec<AgentRow> {
        let poor = self.wrong.poor_agent == Some(host);
        vec![AgentRow {
            time: Time(NOON + (hour as i64 + 1) * HOUR_US - 1),
            event: AgentEvent::Period,
            level: match poor {
                _ if host < self.wrong.counting_agents => 255,
                true => 0,
                false => 1,
            },
            cpu_share: if poor { 0.0123 } else { 0.0021 },
            tracked: 100,
            lost_rows: if poor { 7 * (hour + 1) } else { 0 },
            rows: self.connections,
            boot: Some(boot_of(host).into()),
            kernel: Some(kernel_of(host).into()),
            version: Some("0.1.0".into()),
            ..AgentRow::default()
        }]
    }
}

/// What a machine says of itself in an hour: odd ones change in the second hour, the others go on.
#[allow(dead_code, reason = "an hour of a large fleet is made without it")]
pub fn described(host: u64, hour: u64) -> Option<HostRow> {
    let changes = !host.is_multiple_of(2);
    let (role, algorithm) = match (hour, changes) {
        (0, false) => ("core", "cubic"),
        (0, true) => ("old", "cubic"),
        (1, true) => ("edge", "bbr"),
        _ => return None,
    };
    // Some have no such label.
    let role = (!host.is_multiple_of(4)).then(|| format!("cloud=own;role={role}"));
    Some(HostRow {
        time: Time(NOON + hour as i64 * HOUR_US + 1_000_000),
        kernel: Some(kernel_of(host).into()),
        labels: role.map(Text::from),
        congestion_control: Some(algorithm.into()),
        ..HostRow::default()
    })
}

fn kernel_of(host: u64) -> &'static str {
    if host.is_multiple_of(3) { "6.1.158" } else { "6.12.48" }
}

/// By its last row.
fn role_of(host: u64) -> &'static str {
    match host % 4 {
        0 => "unknown",
        2 => "core",
        _ => "edge",
    }
}

const SERVICES: [(u16, &str); 5] =
    [(443, "eth0"), (443, "eth0"), (443, "eth0"), (80, "eth0"), (8080, "eth1")];

fn internal(host: u64) -> String {
    format!("10.200.{}.{}", host / 250 % 250, 1 + host % 250)
}

fn common(host: u64) -> Connection {
    Connection {
        kind: RowKind::End,
        level: 1,
        source: Source::Probes,
        pid: Some(1000 + (host % 7) as u32),
        unit: Some("nginx.service".into()),
        netns: 4_026_531_840,
        algorithm: Some("cubic".into()),
        mss: 1448,
        cwnd: 10,
        largest_peer_window: 65_535,
        ..Connection::default()
    }
}

struct Path {
    rtt_us: f64,
    loss: f64,
}

impl Path {
    fn of(seed: u64, prefix: u64) -> Path {
        let mut random = Random::of(&[seed, 0x9a7b, prefix]);
        Path { rtt_us: random.spread(30_000.0, 0.6), loss: random.spread(0.001, 0.4) }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Limit {
    Application,
    Receiver,
    SendBuffer,
    Queue,
    Window,
}

/// Fills what a transfer of that many bytes leaves behind.
fn transfer(row: &mut Connection, size: u64, path: &Path, limit: Limit, random: &mut Random) {
    let segments = size.div_ceil(SEGMENT);
    // Losses come in bursts: connections differ more than chance alone would have it.
    let own = path.loss * random.spread(0.78, 0.7);
    let lost = random.poisson(segments as f64 * own);
    let rtt = path.rtt_us * (1.0 + 0.1 * random.share());
    let rounds = 2.0 + (segments as f64 / 10.0).log2().max(0.0) + lost as f64;
    let busy = rtt * rounds * if limit == Limit::Queue { 3.0 } else { 1.0 };
    let idle = if limit == Limit::Application { busy * (2.0 + 20.0 * random.share()) } else { 0.0 };
    row.bytes_acked = size;
    row.bytes_sent = size + lost * SEGMENT;
    row.bytes_retransmitted = lost * SEGMENT;
    row.bytes_received = 200 + random.below(800);
    row.data_segments_sent = (segments + lost) as u32;
    row.segments_sent = row.data_segments_sent + 4;
    row.data_segments_received = 1;
    row.segments_received = (segments / 2 + 4) as u32;
    row.retransmitted = lost as u32;
    let by_timeout = lost.min(random.poisson(lost as f64 * 0.2));
    row.timeouts = Some(by_timeout as u32);
    row.retransmitted_by_timeout = Some(by_timeout as u32);
    row.retransmitted_by_recovery = Some((lost - by_timeout) as u32);
    row.retransmitted_by_probe = Some(0);
    row.min_rtt_us = Some(path.rtt_us as u32);
    row.srtt_us = Some(if limit == Limit::Queue { 3.2 * rtt } else { rtt } as u32);
    row.mdev_us = Some((rtt / 20.0) as u32);
    row.largest_cwnd = 10 + random.below(90) as u32;
    row.busy_us = busy as u64;
    row.duration_us = Some((busy * 1.02 + idle + rtt) as u64);
    row.ended = if random.chance(0.8) { Ended::ClosedHere } else { Ended::ClosedThere };
    match limit {
        Limit::Receiver => {
            row.busy_us += 400_000;
            row.duration_us = row.duration_us.map(|us| us + 400_000);
            row.receive_window_limited_us = row.busy_us * 9 / 10;
        }
        Limit::SendBuffer => row.send_buffer_limited_us = row.busy_us * 8 / 10,
        _ => {}
    }
    if lost > 0 {
        let decided = format!("-{:.3} s open>recovery {}", busy / 2e6, row.cwnd);
        row.last_decisions = Some(decided.into());
    }
}

/// The same connection in the middle of its life.
fn interim_of(row: &Connection) -> Connection {
    Connection {
        kind: RowKind::Interim,
        time: Time(row.time.0 - row.duration_us.unwrap_or(0) as i64 / 2),
        duration_us: row.duration_us.map(|us| us / 2),
        bytes_acked: row.bytes_acked / 2,
        data_segments_sent: row.data_segments_sent / 2,
        retransmitted: row.retransmitted / 2,
        ended: Ended::Open,
        verdict: Cause::Unknown,
        last_decisions: None,
        ..row.clone()
    }
}

impl Truth {
    /// What other hosts of the same fleet must answer, too.
    #[allow(dead_code, reason = "tests make their hosts one after another")]
    pub fn add(&mut self, other: Truth) {
        self.rows += other.rows;
        for (prefix, (ended, sent, again)) in other.prefixes {
            let of_prefix = self.prefixes.entry(prefix).or_default();
            *of_prefix = (of_prefix.0 + ended, of_prefix.1 + sent, of_prefix.2 + again);
        }
        for (key, ended) in other.verdicts {
            *self.verdicts.entry(key).or_default() += ended;
        }
        for (key, ended) in other.roles {
            *self.roles.entry(key).or_default() += ended;
        }
        self.held_by_receiver.extend(other.held_by_receiver);
        self.pairs.extend(other.pairs);
    }

    fn count(&mut self, rows: &[Connection], host: u64, full_receiver: Option<String>) {
        self.rows += rows.len() as u64;
        for row in rows.iter().filter(|row| row.kind != RowKind::Interim) {
            let prefix = row.remote_prefix.as_deref().unwrap_or_default();
            let of_prefix = self.prefixes.entry(prefix.to_owned()).or_default();
            of_prefix.0 += 1;
            of_prefix.1 += u64::from(row.data_segments_sent);
            of_prefix.2 += u64::from(row.retransmitted);
            let hour = row.time.0.div_euclid(HOUR_US) * HOUR_US;
            let key = format!("{hour} {} {}", row.service, row.verdict.name());
            *self.verdicts.entry(key).or_default() += 1;
            let key = format!("{} {}", role_of(host), row.verdict.name());
            *self.roles.entry(key).or_default() += 1;
            if full_receiver.as_deref() == Some(prefix) && row.verdict == Cause::ReceiverWindow {
                self.held_by_receiver.push(format!("{} {}", host_name(host), row.cookie));
            }
        }
    }
}
