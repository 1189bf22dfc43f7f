//! One way to name connections, in every command.

use transom_analysis::{Identified, Identity, Selector, select};
use transom_event::{Endpoints, Token};

struct Named {
    cookie: u64,
    tgid: u32,
    program: &'static str,
    ends: Option<Endpoints>,
    mptcp: Option<Token>,
}

impl Identified for Named {
    fn identity(&self) -> Identity<'_> {
        let Named { cookie, tgid, program, ends, mptcp } = *self;
        Identity { cookie, tgid, program, ends, mptcp }
    }
}

fn named(cookie: u64, tgid: u32, program: &'static str, local: &str, remote: &str) -> Named {
    let ends = Endpoints { local: local.parse().unwrap(), remote: remote.parse().unwrap() };
    Named { cookie, tgid, program, ends: Some(ends), mptcp: None }
}

/// An upload, a server's connection over IPv6, a subflow, one that was cut before its start.
fn all() -> Vec<Named> {
    vec![
        named(7, 4242, "iperf3", "10.0.0.1:4000", "10.0.0.2:5201"),
        named(8, 80, "nginx-worker", "[2001:db8::1]:443", "[2001:db8:0:1::9]:50000"),
        Named {
            mptcp: Some(Token(0x0070_1234)),
            ..named(9, 4243, "Curl", "10.0.0.12:4001", "192.0.2.7:443")
        },
        Named { cookie: 443, tgid: 0, program: "", ends: None, mptcp: None },
    ]
}

#[track_caller]
fn cookies(text: &str) -> Vec<u64> {
    let all = all();
    let selector: Selector = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    selector.of(&all).iter().map(|named| named.cookie).collect()
}

#[test]
fn by_program() {
    assert_eq!(cookies("iperf3"), [7]);
    assert_eq!(cookies("perf"), [7], "part of the name");
    assert_eq!(cookies("curl"), [9], "case does not matter");
    assert_eq!(cookies("nginx-worker"), [8], "a hyphen does not make two ends of it");
    assert_eq!(cookies("apache"), [0; 0]);
}

#[test]
fn by_a_name_longer_than_what_the_kernel_keeps_of_it() {
    let resolver = [named(1, 4244, "systemd-resolve", "192.0.2.1:4002", "192.0.2.2:53")];
    let selector: Selector = "systemd-resolved".parse().unwrap();
    assert_eq!(selector.of(&resolver).len(), 1);
}

#[test]
fn a_number_is_a_cookie_else_a_token_else_a_port_else_a_process() {
    assert_eq!(cookies("7"), [7]);
    assert_eq!(cookies("#7"), [7]);
    assert_eq!(cookies("443"), [443], "a cookie, though it is a port, too");
    assert_eq!(cookies(":443"), [8, 9], "only the port");
    assert_eq!(cookies("#5201"), [0; 0], "only a cookie");
    assert_eq!(cookies("5201"), [7]);
    assert_eq!(cookies("4243"), [9]);
    assert_eq!(cookies("701234"), [9]);
}

#[test]
fn by_address_and_not_by_what_only_begins_like_it() {
    assert_eq!(cookies("10.0.0.1"), [7], "not 10.0.0.12");
    assert_eq!(cookies("10.0.0.1:4000"), [7]);
    assert_eq!(cookies("10.0.0.0/24"), [7, 9]);
    assert_eq!(cookies("10.0."), [7, 9]);
    assert_eq!(cookies("10.0"), [7, 9]);
    assert_eq!(cookies("0.0.0.0/0"), [7, 9]);
    assert_eq!(cookies("::ffff:10.0.0.1"), [7], "as a socket of IPv6 names it");
    assert_eq!(cookies("::ffff:10.0.0.0/120"), [7, 9], "and a prefix of such addresses");
    assert_eq!(cookies("10.0.0.3"), [0; 0]);
    assert_eq!(cookies(":520"), [0; 0]);
}

/// As `ss`, `ip` and programs print an address of link scope.
#[test]
fn the_interface_of_an_address_of_link_scope_is_not_asked_for() {
    let ends = ("[fe80::1]:42120", "[fe80::2]:5001");
    let all = [named(5, 1, "curl", ends.0, ends.1), named(6, 1, "fe80%x", "[::1]:1", "[::1]:2")];
    for text in [
        "fe80::2%eth0",
        "[fe80::2%eth0]:5001",
        "[fe80::2]%eth0:5001",
        "fe80::2%eth0/128",
        "[fe80::2]%br-lan:5001",
        "fe80::1%br-lan-:5001",
        "[fe80::1]%br-lan:42120-[fe80::2]%br-lan:5001",
    ] {
        let selector: Selector = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(selector.of(&all).iter().map(|it| it.cookie).collect::<Vec<_>>(), [5], "{text}");
    }
    let program: Selector = "fe80%x".parse().unwrap();
    assert_eq!(program.of(&all).iter().map(|it| it.cookie).collect::<Vec<_>>(), [6]);
}

#[test]
fn by_address_of_ipv6_however_it_is_written() {
    for text in ["2001:db8::1", "[2001:db8::1]", "2001:0DB8:0::1", "[2001:db8::1]:443"] {
        assert_eq!(cookies(text), [8], "{text}");
    }
    assert_eq!(cookies("2001:db8::/32"), [8]);
    assert_eq!(cookies("2001:db8:"), [8]);
    assert_eq!(cookies("2001:db8"), [8]);
    assert_eq!(cookies("2001:db8:0:2::/64"), [0; 0]);
}

#[test]
fn by_both_ends() {
    let both = [
        "10.0.0.1:4000-10.0.0.2:5201",
        "10.0.0.1:4000 > 10.0.0.2:5201",
        "10.0.0.1-:5201",
        ":4000-",
        "-10.0.0.2",
        "[::ffff:10.0.0.1]:4000-",
    ];
    for text in &both[..5] {
        assert_eq!(cookies(text), [7], "{text}");
    }
    assert_eq!(cookies("-:443"), [9]);
    assert_eq!(cookies("2001:db8::1-2001:db8::/32"), [8]);
    assert_eq!(cookies("10.0.0.2-10.0.0.1"), [0; 0], "local and remote are no more of the same");
}

#[test]
fn by_token_with_and_without_leading_zeros() {
    assert_eq!(cookies("00701234"), [9]);
    assert_eq!(cookies("0x701234".trim_start_matches("0x")), [9]);
}

#[test]
fn what_can_name_nothing_is_refused_with_the_reason() {
    for (text, reason) in [
        ("", "empty"),
        (":99999", "no port"),
        ("10.0.0.0/33", "0 to 32 bits"),
        ("[::1", "no address"),
        ("#x", "no socket cookie"),
        ("here > there", "no address"),
    ] {
        let error = text.parse::<Selector>().unwrap_err().to_string();
        assert!(error.contains(reason), "{text:?}: {error}");
        assert!(error.contains(":5201"), "{text:?} says what is possible: {error}");
    }
}

#[test]
fn what_none_of_them_is_is_answered_with_what_there_is() {
    let wanted = |text: &str| vec![(text.to_owned(), text.parse().unwrap())];
    let all = all();
    let error = select(&all, &wanted("apache")).err().unwrap().to_string();
    assert!(error.contains("\"apache\""), "{error}");
    assert!(error.contains("iperf3 10.0.0.1:4000 > 10.0.0.2:5201 (cookie 7)"), "{error}");
    assert!(error.contains("(cookie 443)"), "{error}");
    let many: Vec<Named> =
        (1..=30).map(|n| named(n, 1, "curl", "10.0.0.1:1", "10.0.0.2:2")).collect();
    let error = select(&many, &wanted("apache")).err().unwrap().to_string();
    assert!(error.contains("22 more") && error.contains("--all"), "{error}");
    let none: [Named; 0] = [];
    let error = select(&none, &wanted("apache")).err().unwrap().to_string();
    assert!(error.contains("none at all"), "{error}");
}

#[test]
fn several_names_choose_each_once_in_the_order_of_the_recording() {
    let wanted: Vec<_> =
        ["curl", ":443", "7"].map(|text| (text.to_owned(), text.parse().unwrap())).to_vec();
    let all = all();
    let chosen: Vec<u64> = select(&all, &wanted).unwrap().iter().map(|c| c.cookie).collect();
    assert_eq!(chosen, [7, 8, 9]);
    assert_eq!(select(&all, &[]).unwrap().len(), 4, "nothing wanted: all");
}
