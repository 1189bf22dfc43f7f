use super::*;

const FILE: &str = r#"title = "t"
source = "s"
question = "q"
duration_s = 10
repeats = 2

[air]

[path]
rtt_ms = 8
up = { loss = 0.1 }

[hosts.phone]
profile = "nexus-s"
[hosts.server]

[flows.up]
from = "phone"
to = "server"

[sweep]
path.rtt_ms = [0, 64]

[[published]]
name = "p"
pick = { metric = "goodput_mbit", flow = "up" }
along = "path.rtt_ms"
at = [0, 64]
values = [1, 2]

[[figures]]
kind = "sweep"
title = "f"
along = "path.rtt_ms"
unit = "Mbit/s"
curves = [{ name = "c", pick = { metric = "goodput_mbit", flow = "up" } }]

[[claims]]
text = "c"
test = "ratio"
of = { metric = "goodput_mbit", flow = "up", where = { path.rtt_ms = 0 } }
over = { metric = "goodput_mbit", flow = "up", where = { path.rtt_ms = 64.0 } }
at_least = 1
"#;

fn read(text: &str) -> anyhow::Result<Loaded> {
    parse("dir/x.toml".as_ref(), text.to_owned())
}

/// What is said when `from` is replaced by `to`.
fn refused(from: &str, to: &str) -> String {
    assert_eq!(FILE.matches(from).count(), 1, "{from}");
    read(&FILE.replace(from, to)).unwrap_err().to_string()
}

#[test]
fn a_whole_file_is_read() {
    let loaded = read(FILE).unwrap();
    assert_eq!(loaded.name, "x");
    assert_eq!(loaded.experiment.path.rtt_ms, 8.0);
    assert_eq!(loaded.experiment.seed, 1);
    assert!(loaded.experiment.hosts["phone"].station.is_some(), "from its profile");
    assert!(loaded.experiment.hosts["server"].station.is_none());
    assert!(matches!(loaded.experiment.claims[0].test, Test::Ratio { .. }));
}

#[test]
fn claims_and_figures_survive_json() {
    let experiment = read(FILE).unwrap().experiment;
    let claims = serde_json::to_string(&experiment.claims).unwrap();
    let figures = serde_json::to_string(&experiment.figures).unwrap();
    let again: Vec<Claim> = serde_json::from_str(&claims).unwrap();
    assert_eq!(serde_json::to_string(&again).unwrap(), claims);
    let again: Vec<Figure> = serde_json::from_str(&figures).unwrap();
    assert_eq!(serde_json::to_string(&again).unwrap(), figures);
}

#[test]
fn text_that_is_no_toml_is_told_with_its_line() {
    let text = refused("[path]", "[path");
    assert!(text.starts_with("dir/x.toml:9: no TOML: "), "{text}");
}

#[test]
fn unknown_keys_are_told_with_the_nearest_known_one() {
    assert_eq!(
        refused("rtt_ms = 8", "rtt_mss = 8"),
        "dir/x.toml:10: `path.rtt_mss`: there is no such key as `rtt_mss`; did you mean `rtt_ms`?"
    );
    assert_eq!(
        refused("unit = ", "units = "),
        "dir/x.toml:35: `figures.0.units`: there is no such key as `units`; did you mean `unit`?"
    );
    assert_eq!(
        refused("at_least = 1", "atleast = 1"),
        "dir/x.toml:43: `claims.0.atleast`: there is no such key as `atleast`; did you mean \
         `at_least`?"
    );
    assert_eq!(
        refused("[air]", "[air]\naccess = \"dfc\""),
        "dir/x.toml:8: `air.access`: there is no such value as `dfc`; did you mean `dcf`?"
    );
}

#[test]
fn values_of_the_wrong_type_are_told_with_their_line() {
    assert_eq!(
        refused("rtt_ms = 8", "rtt_ms = \"8\""),
        "dir/x.toml:10: `path.rtt_ms`: cannot be the text \"8\": give a number"
    );
    assert_eq!(
        refused("repeats = 2", "repeats = -1"),
        "dir/x.toml:5: `repeats`: cannot be -1: give a whole number from 0 to 4294967295"
    );
}

#[test]
fn missing_keys_are_told() {
    let of = |from: &str| refused(from, "");
    assert_eq!(of("to = \"server\"\n"), "dir/x.toml:17: `flows.up`: the key `to` is missing");
    assert_eq!(of("test = \"ratio\"\n"), "dir/x.toml:38: `claims.0`: the key `test` is missing");
    // Of the file itself, whatever stands first in it.
    assert_eq!(of("source = \"s\"\n"), "dir/x.toml:1: the key `source` is missing");
    assert_eq!(of("repeats = 2\n"), "dir/x.toml:1: the key `repeats` is missing");
    let first = "[flows.up]\nfrom = \"a\"\n";
    assert!(read(first).unwrap_err().to_string().starts_with("dir/x.toml:1: `flows.up`: "));
}

#[test]
fn an_algorithm_that_no_kernel_has_is_told_where_it_is_named() {
    let nonsuch = |key: &str| {
        format!(
            "`{key}`: neither this kernel nor the simulated one has congestion control \"cubik\"; did you mean `cubic`?"
        )
    };
    assert_eq!(
        refused("[hosts.server]", "[hosts.server]\nalgorithm = \"cubik\""),
        format!("dir/x.toml:16: {}", nonsuch("hosts.server.algorithm"))
    );
    assert_eq!(
        refused("to = \"server\"", "to = \"server\"\nalgorithm = \"cubik\""),
        format!("dir/x.toml:20: {}", nonsuch("flows.up.algorithm"))
    );
    let policy = "[hosts.server]\npolicy.rule = [{ match = { port = 9 }, action = { cap = 9 } },\n  { action = { algorithm = \"cubik\" } }]";
    assert_eq!(
        refused("[hosts.server]", policy),
        format!("dir/x.toml:17: {}", nonsuch("hosts.server.policy.rule.1.action.algorithm"))
    );
    let (swept, _) = FILE.split_once("[[published]]").unwrap();
    let values = "flows.up.algorithm = [\"bbr\", \"cubik\"]";
    let said = read(&swept.replace("path.rtt_ms = [0, 64]", values)).unwrap_err().to_string();
    assert!(said.starts_with("dir/x.toml:22: `sweep.flows.up.algorithm`: "), "{said}");
    let library = "[hosts.server]\nstack = \"library\"\nalgorithm = \"cdg\"";
    let said = refused("[hosts.server]", library);
    assert!(
        said.contains("the library has no congestion control \"cdg\"; known: bbr, cubic"),
        "{said}"
    );
    // The simulated kernel has it, whether or not this one does.
    let known = FILE.replace("[hosts.server]", "[hosts.server]\nalgorithm = \"bbr\"");
    assert!(read(&known).is_ok());
    // What was run elsewhere can be looked at.
    let run = FILE.replace("[hosts.server]", "[hosts.server]\nalgorithm = \"cdg\"");
    assert!(parse_with("x.toml".as_ref(), Links::Unread, run).is_ok());
}

#[test]
fn unknown_names_are_told_with_the_nearest_one() {
    assert_eq!(
        refused("from = \"phone\"", "from = \"phon\""),
        "dir/x.toml:18: `flows.up.from`: there is no host \"phon\"; did you mean `phone`?"
    );
    assert_eq!(
        refused("profile = \"nexus-s\"", "profile = \"nexus\""),
        "dir/x.toml:14: `hosts.phone.profile`: there is no profile \"nexus\"; did you mean \
         `nexus-s`?"
    );
    assert_eq!(
        refused(
            "name = \"p\"\npick = { metric = \"goodput_mbit\"",
            "name = \"p\"\npick = { metric = \"goodput\""
        ),
        "dir/x.toml:26: `published.0.pick.metric`: no metric is called \"goodput\"; did you mean \
         `goodput_mbit`?"
    );
    assert_eq!(
        refused("flow = \"up\", where = { path.rtt_ms = 0 }", "where = { path.rtt_ms = 0 }"),
        "dir/x.toml:41: `claims.0.of.metric`: \"goodput_mbit\" is of one flow; add `flow`"
    );
    assert_eq!(
        refused("path.rtt_ms = 64.0", "path.rtt_ms = 65"),
        "dir/x.toml:42: `claims.0.over.where.path.rtt_ms`: `path.rtt_ms` never is 65; its values: \
         0, 64"
    );
    assert_eq!(
        refused("path.rtt_ms = 64.0", "path.rtt = 65"),
        "dir/x.toml:42: `claims.0.over.where.path.rtt`: the sweep has no key \"path.rtt\"; did you \
         mean `path.rtt_ms`?"
    );
    assert!(refused("test = \"ratio\"", "test = \"ration\"").contains("did you mean `ratio`?"));
    assert!(
        refused("kind = \"sweep\"", "kind = \"histogram\"").contains("known: sweep, time, bars")
    );
}

#[test]
fn impossible_numbers_are_refused() {
    let phone = "profile = \"nexus-s\"";
    let with = |line: &str| format!("{phone}\n{line}");
    let cases = [
        ("rtt_ms = 8", "rtt_ms = -1".to_owned(), "`path.rtt_ms`: -1 is impossible"),
        ("rtt_ms = 8", "rtt_ms = nan".to_owned(), "`path.rtt_ms`: NaN is impossible"),
        ("loss = 0.1", "loss = 1.1".to_owned(), "`path.up.loss`: 1.1 is impossible"),
        ("loss = 0.1", "loss = 0.9, loss_burst = 2".to_owned(), "bursts of 2 cannot make up"),
        ("loss = 0.1", "reorder = 0.1".to_owned(), "set `reorder_ms`"),
        ("loss = 0.1", "queue_packets = 5".to_owned(), "a queue without a rate never fills"),
        (
            "loss = 0.1",
            "discipline.kind = \"red\"".to_owned(),
            "`path.up.discipline.kind`: there is no such value as `red`",
        ),
        (
            "loss = 0.1",
            "discipline.kind = \"pie\"".to_owned(),
            "`path.up.discipline`: without a rate nothing waits; set `rate_mbit`",
        ),
        (
            "loss = 0.1",
            "rate_mbit = 1, discipline = { kind = \"pie\", queues = 3 }".to_owned(),
            "discipline.queues`: means nothing for pie; remove it; pie has ecn, target_ms",
        ),
        (
            "loss = 0.1",
            "stages = [{ loss = 0.1 }, { loss = 2 }]".to_owned(),
            "`path.up.stages.1.loss`: 2 is impossible",
        ),
        (phone, with("link.rtt_ms = 1"), "`hosts.phone.link`: the link of a station is the air"),
        (
            "[hosts.server]",
            "[hosts.server]\nlink.up.loss = 3".to_owned(),
            "`hosts.server.link.up.loss`: 3 is impossible",
        ),
        ("duration_s = 10", "duration_s = 0".to_owned(), "`duration_s`: 0 is impossible"),
        ("repeats = 2", "repeats = 0".to_owned(), "`repeats`: 0 is impossible"),
        (phone, with("station.phy_mbit = 11"), "802.11g has no rate of 11 Mbit/s; choose of 6, 9"),
        (
            phone,
            with("station.mcs = 7"),
            "station.mcs`: 802.11g has no MCS; set `air.standard = \"n\"`",
        ),
        (
            "[air]",
            "[air]\nampdu_packets = 8".to_owned(),
            "`air.ampdu_packets`: means nothing for 802.11g; remove it, or set",
        ),
        (
            "[air]",
            "[air]\nstandard = \"n\"\nchannel_mhz = 80".to_owned(),
            "`air.channel_mhz`: 80 is no width of 802.11n; give 20 or 40",
        ),
        (
            "[air]",
            "[air]\nstandard = \"ac\"".to_owned(),
            "`air.standard`: there is no such value as `ac`; did you mean",
        ),
        (phone, with("station.frame_errors_up = 2"), "station.frame_errors_up`: 2 is impossible"),
        (phone, with("station.queue_packets = 0"), "0 packets is impossible; give at least 1"),
        (
            phone,
            with("driver = { rate_mbit = 8, queue_packets = 1000001 }"),
            "driver.queue_packets`: 1000001 packets is impossible; give at most 1000000",
        ),
        (phone, with("station.sending_queue.packets = 0"), "sending_queue.packets`: 0 packets is"),
        (
            phone,
            with("station.processor = { send_us = 1 }"),
            "station.processor`: what sending costs the processor, without a driver's queue; give",
        ),
        (
            phone,
            with("station.processor = { receive_us = -1 }"),
            "processor.receive_us`: -1 is impossible",
        ),
        (
            phone,
            with(
                "station.processor.receive_us = 1\nstation.receive = { rate_mbit = 1, queue_packets = 1 }",
            ),
            "station.receive`: what receiving costs, said twice; keep it or",
        ),
        (phone, with("driver.rate_mbit = 0"), "driver.rate_mbit`: 0 is impossible"),
        (phone, with("initial_window = 0"), "0 segments is impossible"),
        (phone, with("send_buffer = 1"), "send_buffer`: 1 is impossible"),
        (phone, with("sysctl.\"net.ipv4.tcp_sack\" = \"0\""), "the leading `net.` is understood"),
        (phone, with("algorithm = \"new reno\""), "is no name of a congestion control"),
        ("to = \"server\"", "to = \"phone\"".to_owned(), "a flow from a host to itself"),
        ("to = \"server\"", "to = \"server\"\nprotocol = \"udp\"".to_owned(), "set `rate_mbit`"),
        ("to = \"server\"", "to = \"server\"\nstart_s = -1".to_owned(), "`flows.up.start_s`: -1"),
        ("to = \"server\"", "to = \"server\"\nconnections = 0".to_owned(), "connections`: 0 is"),
        (
            "to = \"server\"",
            "to = \"server\"\nrate_mbit = 0.5\nwrite = 62501".to_owned(),
            "flows.up.write`: iperf 2 is to send 62500 bytes a second",
        ),
        ("[air]\n", "\n".to_owned(), "`hosts.phone.station`: hangs on the air, but"),
        (phone, "".to_owned(), "`air`: no host is on the air"),
        ("values = [1, 2]", "values = [1]".to_owned(), "1 values where 2 belong"),
        ("at_least = 1", "".to_owned(), "`claims.0`: a claim that nothing could refute"),
        ("at_least = 1", "at_least = 1\nat_most = 0".to_owned(), "1 is above `at_most`, 0"),
        (
            "at_least = 1",
            "at_least = 1\nalong = \"x\"".to_owned(),
            "`along` says nothing in a claim",
        ),
        ("[hosts.server]", "[hosts.server]\n[hosts.Very_long_name]".to_owned(), "cannot name a"),
    ];
    for (from, to, says) in cases {
        let text = refused(from, &to);
        assert!(text.contains(says), "{to:?} says {text:?}, not {says:?}");
        assert!(text.starts_with("dir/x.toml:"), "{text}");
    }
}

#[test]
fn all_problems_are_told_at_once() {
    let text = FILE.replace("rtt_ms = 8", "rtt_ms = -8").replace("loss = 0.1", "loss = 3");
    let text = read(&text).unwrap_err().to_string();
    let lines: Vec<&str> = text.lines().map(|line| line.split('`').nth(1).unwrap()).collect();
    assert_eq!(lines, ["path.rtt_ms", "path.up.loss"]);
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let text = format!("{:#}", load("nowhere/y.toml").unwrap_err());
    assert!(text.starts_with("cannot read the experiment nowhere/y.toml: "), "{text}");
}

proptest::proptest! {
    /// Whatever a file says, it is read or refused.
    #[test]
    fn no_text_panics(at in 0..FILE.len(), cut in 0..40usize, put in "[ -~\n]{0,12}") {
        let end = (at + cut).min(FILE.len());
        let _ = read(&format!("{}{put}{}", &FILE[..at], &FILE[end..]));
    }
}

#[test]
fn a_host_is_tuned_by_the_middleware_or_by_a_policy_and_only_a_station_has_the_middleware() {
    let with = |host: &str, keys: &str| {
        let text = FILE.replace(&format!("[hosts.{host}]\n"), &format!("[hosts.{host}]\n{keys}\n"));
        read(&text).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(with("phone", "peer.function = \"share\""), Ok(()));
    assert_eq!(with("phone", "peer = {}\nclass = 2"), Ok(()));
    let both = with("phone", "peer = {}\npolicy = {}").unwrap_err();
    assert!(both.contains("`hosts.phone.peer`") && both.contains("tuned by two"), "{both}");
    let wired = with("server", "peer = {}").unwrap_err();
    assert!(wired.contains("`hosts.server.peer`") && wired.contains("station"), "{wired}");
    let class = with("phone", "class = 0").unwrap_err();
    assert!(class.contains("from 0.1 to 100"), "{class}");
}

#[test]
fn a_policy_that_tune_would_refuse_is_refused_before_the_first_run() {
    let rule = |rule: &str| with("phone", &format!("policy = {{ rule = [{rule}] }}"), "").map(drop);
    assert_eq!(rule("{ action = { cap = 20 } }"), Ok(()));
    let narrow = rule("{ action = { cap = 1 } }").unwrap_err();
    assert!(narrow.contains("`hosts.phone.policy`"), "{narrow}");
    assert!(narrow.contains("cap = 1") && narrow.contains("give 2 to 1000000"), "{narrow}");
    let unknown = rule("{ action = { cap = 20, colour = 1 } }").unwrap_err();
    assert!(unknown.contains("colour"), "{unknown}");
}

/// [`FILE`] with these lines in a host's table, and in the flow's.
fn with(host: &str, host_keys: &str, flow_keys: &str) -> Result<Loaded, String> {
    let hosts = format!("[hosts.{host}]\n");
    let text = FILE.replace(&hosts, &format!("{hosts}{host_keys}\n"));
    let text = text.replace("to = \"server\"\n", &format!("to = \"server\"\n{flow_keys}\n"));
    read(&text).map_err(|error| error.to_string())
}

#[test]
fn the_size_of_a_write_is_what_iperf_takes() {
    let write = |keys: &str| with("phone", "", keys).map(drop);
    assert_eq!(write("write = 64"), Ok(()));
    assert_eq!(write("write = 1048576"), Ok(()));
    assert!(write("write = 1048577").unwrap_err().contains("from 1 to 1048576 bytes"));
    let udp = "protocol = \"udp\"\nrate_mbit = 1\n";
    assert_eq!(write(&format!("{udp}write = 65507")), Ok(()));
    assert!(write(&format!("{udp}write = 65508")).unwrap_err().contains("from 64 to 65507 bytes"));
}

#[test]
fn only_iperf3_lets_the_receiver_open_the_connection() {
    let flow = |loaded: Loaded| {
        let flow = loaded.experiment.flows["up"].clone();
        (flow.opens().to_owned(), flow.listens().to_owned())
    };
    let plain = with("phone", "", "").map(flow);
    assert_eq!(plain, Ok(("phone".to_owned(), "server".to_owned())));
    let reversed = with("phone", "", "tool = \"iperf3\"\nreverse = true").map(flow);
    assert_eq!(reversed, Ok(("server".to_owned(), "phone".to_owned())));
    let refused = with("phone", "", "reverse = true").map(drop).unwrap_err();
    assert!(refused.contains("`flows.up.reverse`") && refused.contains("iperf3"), "{refused}");
}

#[test]
fn the_library_only_opens_connections_and_takes_no_settings_of_the_hosts_kernel() {
    let library = |host: &str, keys: &str, flow: &str| {
        with(host, &format!("stack = \"library\"\n{keys}"), flow).map(drop)
    };
    assert_eq!(library("server", "", "tool = \"iperf3\"\nreverse = true"), Ok(()));
    let listens = library("server", "", "").unwrap_err();
    assert!(listens.contains("'server' would listen on the library"), "{listens}");
    assert!(listens.contains("set `reverse = true`"), "{listens}");
    // The phone's profile gives it an initial window.
    let routed = library("phone", "", "").unwrap_err();
    assert!(routed.contains("`hosts.phone.initial_window`") && routed.contains("routes"));
    let device = library("server", "gso_max_segs = 2", "tool = \"iperf3\"\nreverse = true");
    assert!(device.unwrap_err().contains("`hosts.server.gso_max_segs`: is of the host's device"));
    let unknown = with("server", "stack = \"lkl\"", "").map(drop).unwrap_err();
    assert!(unknown.contains("no such value as `lkl`"), "{unknown}");
}

#[test]
fn a_cellular_interface_is_a_path_and_a_flow_over_it_needs_one() {
    let cellular = with("phone", "cellular = { rtt_ms = 40 }", "over = \"cellular\"").unwrap();
    let path = cellular.experiment.hosts["phone"].cellular.clone().unwrap();
    assert_eq!(path.rtt_ms, 40.0);
    let none = with("phone", "", "over = \"cellular\"").map(drop).unwrap_err();
    assert!(none.contains("`flows.up.over`: neither end has a cellular interface"), "{none}");
    let wrong = with("phone", "cellular.up.loss = 2", "").map(drop).unwrap_err();
    assert!(wrong.contains("`hosts.phone.cellular.up.loss`: 2 is impossible"), "{wrong}");
}

#[test]
fn without_recording_nothing_of_a_trace_can_be_picked_or_drawn() {
    let silent = FILE.replace("repeats = 2", "repeats = 2\nrecord = false");
    assert!(read(&silent).is_ok(), "goodput needs no trace");
    let window = silent.replace("[[claims]]", "[[claims]]\ntext = \"w\"\ntest = \"value\"\nof = { metric = \"cwnd_max\", flow = \"up\" }\nat_least = 1\n[[claims]]");
    let refused = read(&window).map(drop).unwrap_err().to_string();
    assert!(refused.contains("\"cwnd_max\" is from a trace"), "{refused}");
    let drawn = silent.replace(
        "[[claims]]",
        "[[figures]]\ntitle = \"w\"\nkind = \"time\"\nquantity = \"cwnd\"\n[[claims]]",
    );
    let refused = read(&drawn).map(drop).unwrap_err().to_string();
    assert!(refused.contains("`figures.1.quantity`: nothing is recorded"), "{refused}");
}

#[test]
fn a_claim_that_names_no_value_of_a_swept_key_pools_them_only_if_it_says_so() {
    let over =
        "over = { metric = \"goodput_mbit\", flow = \"up\", where = { path.rtt_ms = 64.0 } }";
    let pooled = "over = { metric = \"goodput_mbit\", flow = \"up\" }";
    let said = refused(over, pooled);
    assert!(
        said.contains("x.toml:38: `claims.0`: names no value of the swept key \"path.rtt_ms\"")
    );
    assert!(said.ends_with("or pool all of them with `over_all = true`"), "{said}");
    read(&FILE.replace(over, &format!("{pooled}\nover_all = true"))).unwrap();
    let said = refused("at_least = 1\n", "at_least = 1\nover_all = true\n");
    assert!(said.contains("nothing is pooled"), "{said}");
    // A key with one value has nothing to pool.
    read(
        &FILE
            .replace(over, pooled)
            .replace("[0, 64]\n\n", "[0]\n\n")
            .replace("at = [0, 64]\nvalues = [1, 2]", "at = [0]\nvalues = [1]"),
    )
    .unwrap();
}

#[test]
fn bounds_are_numbers_and_trends_have_three_values() {
    for bound in ["nan", "inf", "-inf"] {
        let said = refused("at_least = 1\n", &format!("at_least = {bound}\n"));
        assert!(said.contains("`claims.0.at_least`") && said.contains("is no bound"), "{said}");
    }
    let ratio = "test = \"ratio\"\nof = { metric = \"goodput_mbit\", flow = \"up\", where = { path.rtt_ms = 0 } }\nover = { metric = \"goodput_mbit\", flow = \"up\", where = { path.rtt_ms = 64.0 } }";
    let trend = "test = \"trend\"\nalong = \"path.rtt_ms\"\nof = { metric = \"goodput_mbit\", flow = \"up\" }";
    let said = refused(ratio, trend);
    assert!(
        said.contains("2 values of \"path.rtt_ms\" make no trend; use the test \"ratio\""),
        "{said}"
    );
}

#[test]
fn a_calibrated_claim_says_what_was_put_in() {
    read(
        &FILE.replace("at_least = 1\n", "at_least = 1\ncalibrated = \"the rate is the paper's\"\n"),
    )
    .unwrap();
    let said = refused("at_least = 1\n", "at_least = 1\ncalibrated = \" \"\n");
    assert!(said.contains("`claims.0.calibrated`: gives no reason"), "{said}");
}
