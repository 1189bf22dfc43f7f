//! The filters that `record`, `log`, `top` and `journal` share.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use transom_event::Prefix;
use transom_machine::workload::Workload;
use transom_monitor::{Filter, Rate};

use crate::service::port;

/// Values of a list are alternatives; all filters given must hold.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Filters (decided in the kernel)")]
pub struct FilterArgs {
    /// Connections that these processes use
    #[arg(short, long, value_delimiter = ',', value_name = "PID")]
    pub pid: Vec<u32>,
    /// With --pid: also those of the processes they start
    #[arg(long, requires = "pid")]
    pub children: bool,
    /// Connections of a cgroup (v2) and all below it: a path, absolute or below the mount
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,
    /// Connections of a systemd unit: nginx.service, or nginx
    #[arg(long, value_name = "UNIT", conflicts_with_all = ["cgroup", "container", "pod"])]
    pub unit: Option<String>,
    /// Connections of a container: the first digits of its identity
    #[arg(long, value_name = "ID", conflicts_with_all = ["cgroup", "pod"])]
    pub container: Option<String>,
    /// Connections of a Kubernetes pod of this machine: NAMESPACE/NAME, or its UID
    #[arg(long, value_name = "POD", conflicts_with = "cgroup")]
    pub pod: Option<String>,
    /// Connections of a network namespace: a name of `ip netns`, a process id or a path
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,
    /// Connections whose route leaves through this interface, of this network namespace or of --netns
    #[arg(short, long, value_name = "IFACE")]
    pub interface: Option<String>,
    /// Port of either end: a number, or a name of /etc/services
    #[arg(long, value_delimiter = ',', value_name = "PORT", value_parser = port)]
    pub port: Vec<u16>,
    #[arg(long, value_delimiter = ',', value_name = "PORT", value_parser = port)]
    /// Port of this end
    pub local_port: Vec<u16>,
    /// Port of the other end
    #[arg(long, value_delimiter = ',', value_name = "PORT", value_parser = port)]
    pub remote_port: Vec<u16>,
    /// Address of this end: 192.0.2.1, 10.0.0.0/8, 2001:db8::/32
    #[arg(long, value_delimiter = ',', value_name = "PREFIX")]
    pub local: Vec<Prefix>,
    /// Address of the other end
    #[arg(long, value_delimiter = ',', value_name = "PREFIX")]
    pub remote: Vec<Prefix>,
    /// How many `ack` and `send` events: `all`, `rtt` (one of each per round trip), or an interval such as `10ms`
    #[arg(long, default_value = "all", value_parser = rate, allow_hyphen_values = true)]
    pub rate: Rate,
}

/// Times of events have 64 bits.
const LONGEST_NS: u128 = u64::MAX as u128;

/// `10ms`, `1.5s`, `2m`, `1h`; a bare number is seconds. Of an option with `allow_hyphen_values`,
/// so that a negative one gets here and not the advice to write `-- -5`.
///
/// # Errors
/// It is none, or longer than what the times of events can tell.
pub fn duration(text: &str) -> Result<Duration> {
    if text.starts_with('-') {
        bail!("'{text}' is no duration: it must not be negative");
    }
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let scale = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => bail!("'{unit}' is no unit of time: use us, ms, s, m or h"),
    };
    let number: f64 =
        number.parse().with_context(|| format!("'{text}' is no duration such as 10ms or 1.5s"))?;
    Duration::try_from_secs_f64(number * scale)
        .ok()
        .filter(|time| time.as_nanos() <= LONGEST_NS)
        .with_context(|| format!("'{text}' is no possible duration: give one up to 500 years"))
}

/// `100M`, `2G`, `64k`; a bare number is bytes.
pub fn bytes(text: &str) -> Result<u64> {
    let (number, scale) = match text.trim_end_matches(['B', 'b']).char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1 << 10),
        Some((at, 'm' | 'M')) => (&text[..at], 1 << 20),
        Some((at, 'g' | 'G')) => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    let number: u64 =
        number.parse().with_context(|| format!("'{text}' is no size such as 64k, 100M or 2G"))?;
    number.checked_mul(scale).with_context(|| format!("'{text}' is too large"))
}

fn rate(text: &str) -> Result<Rate> {
    match text {
        "all" => Ok(Rate::Every),
        "rtt" => Ok(Rate::OncePerRtt),
        number if number.parse::<f64>().is_ok() => {
            bail!("'{text}' has no unit: an interval is written as {text}ms or {text}s")
        }
        _ => match duration(text).with_context(|| format!("'{text}' is no rate"))? {
            Duration::ZERO => bail!("an interval of 0 is no rate: use all for every event"),
            interval => Ok(Rate::Interval(interval)),
        },
    }
}

/// As in the trace file's metadata: `port=5201 local=10.0.0.0/8`.
impl std::fmt::Display for FilterArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut words = Vec::new();
        let mut put = |key: &str, values: Vec<String>| {
            if !values.is_empty() {
                words.push(format!("{key}={}", values.join(",")));
            }
        };
        let ports = |ports: &[u16]| ports.iter().map(u16::to_string).collect();
        let prefixes = |list: &[Prefix]| list.iter().map(Prefix::to_string).collect();
        put("pid", self.pid.iter().map(u32::to_string).collect());
        put("cgroup", self.cgroup.iter().map(|path| path.display().to_string()).collect());
        put("unit", self.unit.iter().cloned().collect());
        put("container", self.container.iter().cloned().collect());
        put("pod", self.pod.iter().cloned().collect());
        put("netns", self.netns.iter().cloned().collect());
        put("interface", self.interface.iter().cloned().collect());
        put("port", ports(&self.port));
        put("local_port", ports(&self.local_port));
        put("remote_port", ports(&self.remote_port));
        put("local", prefixes(&self.local));
        put("remote", prefixes(&self.remote));
        match self.rate {
            Rate::Every => {}
            Rate::OncePerRtt => put("rate", vec!["rtt".into()]),
            Rate::Interval(interval) => put("rate", vec![format!("{interval:?}")]),
        }
        f.write_str(&words.join(" "))
    }
}

impl FilterArgs {
    /// The options again, for a `transom` elsewhere.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut put = |name: &str, values: Vec<String>| {
            words.extend(values.into_iter().map(|value| format!("--{name}={value}")));
        };
        let ports = |ports: &[u16]| ports.iter().map(u16::to_string).collect();
        let prefixes = |list: &[Prefix]| list.iter().map(Prefix::to_string).collect();
        let word = |value: &Option<String>| value.iter().cloned().collect();
        put("pid", self.pid.iter().map(u32::to_string).collect());
        put("cgroup", self.cgroup.iter().map(|path| path.display().to_string()).collect());
        put("unit", word(&self.unit));
        put("container", word(&self.container));
        put("pod", word(&self.pod));
        put("netns", word(&self.netns));
        put("interface", word(&self.interface));
        put("port", ports(&self.port));
        put("local-port", ports(&self.local_port));
        put("remote-port", ports(&self.remote_port));
        put("local", prefixes(&self.local));
        put("remote", prefixes(&self.remote));
        match self.rate {
            Rate::Every => {}
            Rate::OncePerRtt => put("rate", vec!["rtt".into()]),
            Rate::Interval(interval) => put("rate", vec![format!("{}us", interval.as_micros())]),
        }
        if self.children {
            words.push("--children".into());
        }
        words
    }

    /// With a program to run: only what it and its children touch.
    ///
    /// # Errors
    /// As [`FilterArgs::filter`].
    pub fn filter_for(&self, program: &[OsString]) -> Result<Filter> {
        let mut filter = self.filter()?;
        filter.by_process |= !program.is_empty();
        filter.children |= !program.is_empty();
        Ok(filter)
    }

    fn workload(&self) -> Option<Workload> {
        let unit = self.unit.clone().map(Workload::Unit);
        let container = || self.container.clone().map(Workload::Container);
        unit.or_else(container).or_else(|| self.pod.clone().map(Workload::Pod))
    }

    /// # Errors
    /// A unit, container or pod that was named is not there.
    pub fn filter(&self) -> Result<Filter> {
        let of_workload = self.workload().map(|workload| workload.cgroup()).transpose()?;
        Ok(Filter {
            pids: self.pid.clone(),
            by_process: !self.pid.is_empty(),
            children: self.children,
            cgroup: of_workload.or_else(|| self.cgroup.clone()),
            netns: self.netns.clone(),
            interface: self.interface.clone(),
            ports: self.port.clone(),
            local_ports: self.local_port.clone(),
            remote_ports: self.remote_port.clone(),
            local: self.local.clone(),
            remote: self.remote.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("10ms").unwrap(), Duration::from_millis(10));
        assert_eq!(duration("1.5").unwrap(), Duration::from_millis(1500));
        assert_eq!(duration("2m").unwrap(), Duration::from_secs(120));
        assert!(duration("3 parsecs").is_err());
        assert!(duration("-1s").unwrap_err().to_string().contains("negative"));
    }

    #[test]
    fn a_duration_that_ends_after_all_clocks_is_refused() {
        let error = duration("10000000000000000000").unwrap_err().to_string();
        assert!(error.contains("up to 500 years"), "{error}");
        assert!(duration("4000000h").is_ok());
    }

    #[test]
    fn an_interval_of_a_rate_has_a_unit() {
        assert_eq!(rate("10ms").unwrap(), Rate::Interval(Duration::from_millis(10)));
        assert!(rate("10").unwrap_err().to_string().contains("10ms"));
        assert!(rate("0ms").unwrap_err().to_string().contains("all"));
    }

    #[test]
    fn a_recording_tells_how_far_apart_its_arrivals_are_at_least() {
        for (words, ns) in [
            ("all", 0),
            ("rtt", 0),
            ("100us", 100_000),
            ("10ms", 10_000_000),
            ("1.5s", 1_500_000_000),
            ("1m", 60_000_000_000),
        ] {
            let rate = rate(words).unwrap();
            let filters = FilterArgs { port: vec![80], rate, ..FilterArgs::default() };
            let meta = transom_trace::Meta { filters: filters.to_string(), ..Default::default() };
            assert_eq!(meta.told_apart_ns(), ns, "{words}: {}", meta.filters);
        }
    }

    #[test]
    fn the_options_again_are_the_same_filters() {
        #[derive(clap::Parser)]
        struct Program {
            #[command(flatten)]
            filters: FilterArgs,
        }
        let parsed = |words: &[String]| {
            use clap::Parser;
            let program = ["transom".to_owned()].into_iter().chain(words.iter().cloned());
            Program::try_parse_from(program).unwrap().filters
        };
        let all = [
            "--pid=7,8 --children --netns=phone --interface=wlan0 --port=443,80 --rate=1500us",
            "--local-port=1 --remote-port=2 --local=10.0.0.0/8 --remote=2001:db8::/32 --rate=rtt",
            "--unit=nginx.service",
            "--container=12ab",
            "--pod=a/b",
            "--cgroup=/x",
        ];
        for line in all {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let filters = parsed(&words);
            let again = parsed(&filters.words());
            assert_eq!(again.to_string(), filters.to_string());
            assert_eq!((again.to_string().is_empty(), again.children), (false, filters.children));
        }
    }

    /// The options that the page on `record` names in its sentence with these words.
    fn options_that(do_what: &str) -> Vec<String> {
        let page = include_str!("../../../docs/record.md");
        let sentence = page.split(['.', '\n']).find(|sentence| sentence.contains(do_what));
        let sentence = sentence.unwrap_or_else(|| panic!("nothing of options that {do_what}"));
        let named = sentence.split(do_what).next().unwrap_or_default().split('`');
        let mut options: Vec<String> =
            named.filter_map(|word| word.strip_prefix("--")).map(str::to_owned).collect();
        options.sort();
        options
    }

    #[test]
    fn the_page_tells_which_filters_take_lists_and_which_exclude_each_other() {
        let command = FilterArgs::augment_args(clap::Command::new("transom"));
        let that = |holds: &dyn Fn(&clap::Arg) -> bool| {
            let options = command.get_arguments().filter(|option| holds(option));
            let mut names: Vec<String> =
                options.filter_map(|option| option.get_long().map(str::to_owned)).collect();
            names.sort();
            names
        };
        let conflicts = |of: &clap::Arg, with: &clap::Arg| {
            command.get_arg_conflicts_with(of).iter().any(|it| it.get_id() == with.get_id())
        };
        let excludes = |option: &clap::Arg| {
            let mut others = command.get_arguments();
            others.any(|other| conflicts(option, other) || conflicts(other, option))
        };
        let lists = that(&|option| option.get_value_delimiter() == Some(','));
        assert_eq!(options_that(" take lists"), lists);
        assert_eq!(options_that(" name one cgroup"), that(&excludes));
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(bytes("64k").unwrap(), 65536);
        assert_eq!(bytes("100MB").unwrap(), 100 << 20);
        assert_eq!(bytes("7").unwrap(), 7);
        assert!(bytes("many").is_err());
        assert!(bytes("99999999999G").is_err());
    }
}
