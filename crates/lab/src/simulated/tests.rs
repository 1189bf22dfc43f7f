use transom_emulator::plan::Side;
use transom_peers::Function;
use transom_scenario::{Protocol, Traffic};

use super::*;
use crate::experiment::parse;

/// An experiment of two wired hosts and one flow, with these keys of the sender, of the flow, and
/// on top of all.
fn experiment(top: &str, sender: &str, flow: &str) -> Experiment {
    let text = format!(
        "title = \"t\"\nsource = \"s\"\nquestion = \"q\"\nduration_s = 5\nrepeats = 1\n{top}\n\
         [path]\nrtt_ms = 64\n[hosts.a]\n{sender}\n[hosts.b]\n\
         [flows.up]\nfrom = \"a\"\nto = \"b\"\n{flow}\n"
    );
    parse("x.toml".as_ref(), text).unwrap().experiment
}

fn of(sender: &str, flow: &str) -> Scenario {
    scenario("x", &experiment("", sender, flow), 7).unwrap()
}

fn why_not(top: &str, sender: &str, flow: &str) -> String {
    obstacles(&experiment(top, sender, flow)).join("; ")
}

#[test]
fn hosts_and_links_are_those_of_a_real_run() {
    let scenario = of("algorithm = \"reno\"\nsysctl = { \"ipv4.tcp_sack\" = 0 }", "");
    assert_eq!(scenario.seed, 7);
    assert_eq!(scenario.most_seconds, 5.0 + MARGIN_S);
    let ports: Vec<_> =
        scenario.links.ports.iter().map(|it| (&*it.name, it.side.clone())).collect();
    assert_eq!(ports, [("a", Side::Near), ("b", Side::Far)]);
    assert_eq!(scenario.links.path.rtt_ms, 64.0);
    let host = &scenario.hosts["a"];
    assert_eq!(host.addresses[0].to_string(), "10.77.0.1");
    assert_eq!((host.gso_max_segs, host.gro), (1, false));
    assert_eq!((host.device_mbit, host.queue_packets), (None, 1000));
    for (name, value) in [
        ("ipv4.tcp_congestion_control", "reno"),
        ("ipv4.tcp_sack", "0"),
        ("ipv4.tcp_no_metrics_save", "1"),
        ("ipv4.tcp_rmem", "4096 131072 6291456"),
    ] {
        assert_eq!(host.sysctl[name], value, "{name}");
    }
}

#[test]
fn windows_buffers_and_the_device_reach_the_host() {
    let scenario = of(
        "initial_window = 3\nlargest_window = 66\nsend_buffer = 65536\n\
         driver = { rate_mbit = 8.6, queue_packets = 20 }",
        "",
    );
    let host = &scenario.hosts["a"];
    assert_eq!((host.route.initcwnd, host.route.cwnd), (Some(3), Some(66)));
    assert_eq!((host.device_mbit, host.queue_packets), (Some(8.6), 19), "and one in the device");
    assert_eq!(host.device_burst, Some(3028), "as the real run's tbf has it");
    assert_eq!(host.sysctl["ipv4.tcp_wmem"], "4096 16384 65536");
    let longer = of("driver = { rate_mbit = 8.6, queue_packets = 100 }", "");
    assert_eq!(longer.hosts["a"].queue_packets, 114, "of which 15 may wait to be cleared");
}

#[test]
fn recovery_is_racks_as_in_the_kernels_of_today_whatever_the_sysctl_says() {
    let of = |value: &str| {
        let sysctl = format!("sysctl = {{ \"ipv4.tcp_recovery\" = {value} }}");
        of(&sysctl, "").hosts["a"].sysctl["ipv4.tcp_recovery"].clone()
    };
    assert_eq!([of("0"), of("1"), of("2")], ["1", "1", "3"]);
    assert!(!self::of("", "").hosts["a"].sysctl.contains_key("ipv4.tcp_recovery"));
}

#[test]
fn iperf_over_tcp_is_a_bulk_flow() {
    let scenario = of(
        "algorithm = \"bbr\"",
        "buffer = 65536\nconnections = 3\nwrite = 1024\nstart_s = 2\nduration_s = 4",
    );
    let flow = &scenario.flows["up"];
    assert_eq!(flow.traffic, Traffic::Bulk { seconds: Some(4.0), bytes: None });
    assert_eq!((flow.port, flow.connections, flow.start_s), (5001, 3, 2.0));
    assert_eq!((flow.write_bytes, flow.send_timeout_s), (Some(1024), Some(0.5)));
    let greeting = flow.greeting.unwrap();
    assert_eq!((greeting.bytes, greeting.answer), (60, 28), "as traces of real runs show");
    assert_eq!(flow.sender.congestion.as_deref(), Some("bbr"));
    for end in [&flow.sender, &flow.receiver] {
        assert_eq!((end.send_buffer, end.receive_buffer), (Some(65536), Some(65536)));
    }
    assert_eq!(flow.receiver.congestion, None);
}

#[test]
fn iperf3_takes_whole_seconds_and_may_be_opened_by_the_receiver() {
    let scenario = of("", "tool = \"iperf3\"\nduration_s = 2.5\nreverse = true");
    let flow = &scenario.flows["up"];
    assert_eq!(flow.traffic, Traffic::Bulk { seconds: Some(3.0), bytes: None });
    assert_eq!((flow.opens(), flow.listens()), ("b", "a"));
    assert_eq!((flow.greeting, flow.send_timeout_s), (None, None), "those are of iperf 2");
}

#[test]
fn udp_is_constant_in_datagrams_of_iperf() {
    let scenario = of("", "protocol = \"udp\"\nrate_mbit = 12");
    let flow = &scenario.flows["up"];
    assert_eq!(flow.protocol, Protocol::Udp);
    assert_eq!(flow.traffic, Traffic::Constant { mbit: 12.0, datagram: 1470, seconds: 5.0 });
    assert_eq!(flow.sender.congestion, None);
}

#[test]
fn tcp_at_a_rate_is_a_pattern_of_writes() {
    let scenario = of("", "rate_mbit = 2\nwrite = 25000");
    let Traffic::Writes { writes } = &scenario.flows["up"].traffic else { panic!("no writes") };
    assert_eq!(writes.len(), 50);
    assert_eq!(writes[1], (0.1, 25000));
}

#[test]
fn many_small_writes_are_few_of_as_many_bytes_at_the_same_rate() {
    let flow = "rate_mbit = 1000\nwrite = 1\nduration_s = 60";
    assert_eq!(why_not("", "", flow), "");
    let Traffic::Writes { writes } = &of("", flow).flows["up"].traffic else { panic!("no writes") };
    assert_eq!(writes.len(), 60_000);
    assert_eq!(writes.iter().map(|(_, bytes)| bytes).sum::<u64>(), 7_500_000_000);
    assert_eq!((writes[0], writes[1]), ((0.0, 125_000), (0.001, 125_000)));
}

const DRIVER: &str = "driver = { rate_mbit = 8.6, udp_rate_mbit = 6.9, queue_packets = 20 }";

#[test]
fn a_rate_for_udp_is_the_devices_where_only_udp_is_sent() {
    assert_eq!(of(DRIVER, "").hosts["a"].device_mbit, Some(8.6));
    let udp = "protocol = \"udp\"\nrate_mbit = 12";
    assert_eq!(of(DRIVER, udp).hosts["a"].device_mbit, Some(6.9));
    let both = format!("{udp}\n[flows.back]\nfrom = \"b\"\nto = \"a\"");
    assert!(why_not("", DRIVER, &both).contains("'a' sends TCP and UDP"));
}

#[test]
fn a_cellular_interface_has_a_port_and_addresses_of_its_own() {
    let scenario = of("cellular.rtt_ms = 40", "over = \"cellular\"");
    let cellular = scenario.hosts["a"].cellular.as_ref().unwrap();
    assert_eq!(cellular.interface, "rmnet0");
    assert_eq!(cellular.addresses[0].to_string(), "10.78.0.1");
    assert!(scenario.links.ports.iter().any(|port| port.name == "a.rmnet0"));
    assert!(scenario.flows["up"].over_cellular);
}

fn policy(rules: &str) -> String {
    format!("policy = {{ guard = {{ on = false }}, rule = [{rules}] }}")
}

#[test]
fn a_policy_with_steady_becomes_the_flows_algorithm_and_the_hosts_parameters() {
    let rule = "{ match = { rtt = \"0ms..\" }, action = { algorithm = \"steady\", target = 76, \
                cap = 80, backoff = \"1/4\" } }";
    let scenario = of(&format!("largest_window = 100\n{}", policy(rule)), "");
    assert_eq!(scenario.flows["up"].sender.congestion.as_deref(), Some("steady"));
    let host = &scenario.hosts["a"];
    for (name, value) in [("target", "76"), ("cap", "80"), ("backoff", "256"), ("gain", "1024")] {
        assert_eq!(host.sysctl[&format!("ipv4.tcp_steady_{name}")], value, "{name}");
    }
    assert_eq!(host.route.cwnd, Some(100), "the cap of steady is its own");
}

#[test]
fn a_policy_whose_guard_is_on_is_guarded_there_too() {
    let rule = |target: &str| {
        let action = format!("{{ algorithm = \"steady\"{target} }}");
        format!("rule = [{{ match = {{ rtt = \"0ms..\" }}, action = {action} }}]")
    };
    let host = |text: &str| of(text, "").hosts["a"].guard.clone();
    let found = host(&format!("algorithm = \"reno\"\npolicy = {{ {} }}", rule(""))).unwrap();
    assert_eq!((found.instead.as_str(), found.chosen), ("reno", false));
    assert_eq!(found.settings, transom_guard::GuardSettings::default());
    let text = format!("policy = {{ guard = {{ loss = 0.2 }}, {} }}", rule(", target = 70"));
    let chosen = host(&text).unwrap();
    assert_eq!((chosen.settings.loss, chosen.chosen), (0.2, true));
    let off = format!("policy = {{ guard = {{ on = false }}, {} }}", rule(""));
    assert_eq!(host(&off), None);
    assert_eq!(host("algorithm = \"steady\""), None, "only a policy has a guard");
}

#[test]
fn a_cap_for_another_algorithm_is_the_clamp() {
    let rule = "{ action = { cap = 20, initial_window = 5 } }";
    let scenario = of(&format!("largest_window = 100\n{}", policy(rule)), "");
    let host = &scenario.hosts["a"];
    assert_eq!((host.route.cwnd, host.route.initcwnd), (Some(20), Some(5)));
    assert_eq!(scenario.flows["up"].sender.congestion.as_deref(), Some("cubic"));
}

#[test]
fn the_rule_is_the_first_that_matches_program_port_address_and_round_trip() {
    let cap = |matching: &str| {
        let rules = format!("{{ match = {{ {matching} }}, action = {{ cap = 20 }} }}, ");
        let rules = rules + "{ action = { cap = 50 } }";
        of(&policy(&rules), "").hosts["a"].route.cwnd.unwrap()
    };
    for matching in [
        "program = \"iperf\"",
        "port = 5001",
        "remote = \"10.77.0.0/24\"",
        "remote = \"0.0.0.0/0\"",
        "interface = \"eth0\"",
        "rtt = \"32ms..\"",
    ] {
        assert_eq!(cap(matching), 20, "{matching}");
    }
    for matching in [
        "program = \"iperf3\"",
        "port = 80",
        "remote = \"10.78.0.0/24\"",
        "interface = \"wlan0\"",
        "rtt = \"..63ms\"",
        "terminals = 2",
    ] {
        assert_eq!(cap(matching), 50, "{matching}");
    }
}

#[test]
fn what_depends_on_the_running_connection_is_refused_by_its_name() {
    let steady = "{ match = { rtt = \"0ms..\" }, action = { algorithm = \"steady\" } }";
    let two = format!("policy = {{ rule = [{steady}, {{ action = {{ cap = 20 }} }}] }}");
    assert!(why_not("", &two, "").contains("whose guard would leave it to another rule"));
    let unstable = "{ match = { stability = \"unstable\" }, action = { cap = 20 } }";
    assert!(why_not("", &policy(unstable), "").contains("whose rule 1 follows the stability"));
    let edge = "{ match = { rtt = \"65ms..\" }, action = { cap = 20 } }";
    assert!(why_not("", &policy(edge), "").contains("near 64 ms"));
    let first = "{ match = { program = \"iperf\" }, action = { cap = 30 } }";
    let both = format!("{first}, {unstable}");
    assert_eq!(why_not("", &policy(&both), ""), "", "the first rule applies");
}

#[test]
fn flows_of_one_host_cannot_have_two_caps() {
    let rules = "{ match = { port = 5001 }, action = { cap = 20 } }, { action = { cap = 50 } }";
    let second = "[flows.z]\nfrom = \"a\"\nto = \"b\"";
    assert!(why_not("", &policy(rules), second).contains("different caps"));
}

#[test]
fn what_needs_a_machine_says_so() {
    assert_eq!(why_not("", "", ""), "");
    assert!(why_not("cpu_bound = true", "", "").contains("cpu_bound"));
    assert!(why_not("", "stack = \"library\"", "").contains("'a' has `stack"));
    assert!(why_not("", "mptcp = true", "").contains("'a' has `mptcp`"));
    let refused = scenario("x", &experiment("cpu_bound = true", "", ""), 1);
    assert!(refused.unwrap_err().to_string().contains("cpu_bound"));
}

#[test]
fn a_congestion_control_that_the_simulated_kernel_lacks_is_an_obstacle() {
    let mut experiment = experiment("", "", "");
    assert_eq!(obstacles(&experiment), Vec::<String>::new());
    // As where the kernel that runs has it, so that the file is good.
    experiment.flows.get_mut("up").unwrap().algorithm = Some("cdg".into());
    let said = "a flow of 'a' has the congestion control 'cdg': the simulated kernel has bbr, cubic, reno, steady";
    assert_eq!(obstacles(&experiment), [said]);
}

/// Why not, or the cap: 20 by a rule for round trips in this range, 50 by the next one.
fn cap_within(range: &str, parts: &str) -> Result<u32, String> {
    let rules = format!("{{ match = {{ rtt = \"{range}\" }}, action = {{ cap = 20 }} }}, ");
    let policy = policy(&(rules + "{ action = { cap = 50 } }"));
    let text = format!(
        "title = \"t\"\nsource = \"s\"\nquestion = \"q\"\nduration_s = 5\nrepeats = 1\n\
         [flows.up]\nfrom = \"a\"\nto = \"b\"\n[hosts.a]\n{policy}\n[hosts.b]\n{parts}\n"
    );
    let experiment = parse("x.toml".as_ref(), text).unwrap().experiment;
    match obstacles(&experiment).first() {
        Some(why) => Err(why.clone()),
        None => Ok(scenario("x", &experiment, 7).unwrap().hosts["a"].route.cwnd.unwrap()),
    }
}

#[test]
fn the_round_trip_of_a_rule_is_that_of_the_whole_way() {
    let back = "[flows.back]\nfrom = \"b\"\nto = \"a\"";
    for parts in [
        "[hosts.b.link]\nrtt_ms = 40",
        "[hosts.a.link.up]\ndelay_ms = 40",
        "[path.up]\nstages = [{ delay_ms = 15 }, { delay_ms = 15 }]",
        "[path.down]\ndelays = [[0, 40]]",
        "[hosts.a.cellular]\nrtt_ms = 10\n[hosts.b.link]\nrtt_ms = 15\n\
         [flows.cell]\nfrom = \"a\"\nto = \"b\"\nover = \"cellular\"\n[path]\nrtt_ms = 30",
        &format!("[hosts.b.link]\nrtt_ms = 15\n[hosts.a.link]\nrtt_ms = 15\n{back}"),
        "[path]\nup = { rate_mbit = 0.04 }\ndown = { rate_mbit = 0.04 }",
    ] {
        assert_eq!(cap_within("20ms..", parts), Ok(20), "{parts}");
    }
    // The control: without these the way has no delay.
    assert_eq!(cap_within("20ms..", ""), Ok(50));
    assert_eq!(cap_within("20ms..", "[path]\nup = { rate_mbit = 1 }"), Ok(50));
}

#[test]
fn a_round_trip_that_may_leave_the_range_of_a_rule_is_refused() {
    for parts in [
        "[path.up]\ndelays = [[0, 40], [2, 5]]",
        "[path.up]\ndelay_ms = 40\nrate_mbit = 1\n\
         handovers = [{ at_s = 2, outage_ms = 10, delay_ms = 5 }]",
        "[path]\nup = { rates = [[0, 0.01], [2, 8]] }",
        "[path.up]\ntrace.ms = [1, 50]",
    ] {
        let why = cap_within("20ms..", parts).expect_err(parts);
        assert!(why.contains("whose rule 1 begins or ends at a round trip near"), "{why}");
    }
    assert_eq!(cap_within("20ms..", "[path.up]\ndelays = [[0, 5], [2, 40]]"), Ok(50), "the least");
}

#[test]
fn a_host_with_the_middleware_gets_its_rules_and_class() {
    let peer = |rules: &str| {
        let host = format!("station = {{ phy_mbit = 54 }}\nclass = 2\npeer = {rules}");
        scenario("x", &experiment("air = {}", &host, ""), 1)
    };
    let made = peer("{ function = \"stabilise\", share = { few = 7 } }").unwrap();
    let given = made.hosts["a"].peer.as_ref().unwrap();
    assert_eq!((given.class, given.rules.function), (2.0, Function::Stabilise));
    assert_eq!((given.rules.share.few, &given.lie), (7, &None));
    assert_eq!(made.hosts["b"].peer, None);
    let wrong = format!("{:#}", peer("{ share = { few = 0 } }").unwrap_err());
    assert!(wrong.contains("host 'a' has rules") && wrong.contains("few"), "{wrong}");
}

/// Every point that none of the reasons above excludes becomes a scenario that the engine takes.
#[test]
fn all_experiments_can_be_virtual_but_for_those_that_measure_processors() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let mut none = Vec::new();
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    for file in files.filter(|path| path.extension().is_some()) {
        let loaded = crate::experiment::load(file).unwrap();
        let mut possible = 0;
        for point in crate::sweep::points(&loaded, false) {
            if obstacles(&point.experiment).is_empty() {
                possible += 1;
                let made = scenario(&loaded.name, &point.experiment, point.seed(1));
                made.unwrap_or_else(|error| panic!("{} {}: {error:#}", loaded.name, point.label()));
            }
        }
        if possible == 0 {
            none.push(loaded.name);
        }
    }
    none.sort();
    assert_eq!(none, ["lkl-fig2", "lkl-fig3"]);
}
