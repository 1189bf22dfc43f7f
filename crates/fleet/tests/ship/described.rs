//! What is said of the machine itself, in the table `hosts`.

use std::fs;
use std::path::Path;
use std::process::Command;

use bytes::Bytes;
use transom_spool::{HostRow, read};
use transom_testbed::{Namespace, needs, needs_root, run};

use crate::place::{Folder, ended, ship};
use crate::s3::{Server, ship_to};
use crate::spool::Spool;
use crate::troubled::{Trouble, Troubled};

fn row(folder: &Folder, name: &str) -> HostRow {
    let bytes = Bytes::from(fs::read(folder.0.path().join(name)).unwrap());
    read::<HostRow, _>(bytes).unwrap().remove(0)
}

/// The only one.
fn described(folder: &Folder) -> HostRow {
    let names = folder.of_hosts();
    assert_eq!(names.len(), 1, "{names:?}");
    row(folder, &names[0])
}

fn output(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output().unwrap();
    assert!(output.status.success(), "{program} {words:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_host_is_described_as_its_own_programs_describe_it() {
    let (spool, to) = (Spool::new(1), Folder::new());
    spool.finish(1, 10);
    let mut command = ship(spool.path(), &to.address());
    command.args(["--once", "--label", "region=eu-central-1", "--label", "cloud=own"]);
    let (good, said) = ended(&mut command);
    assert!(good && said.contains("3 files landed"), "{said}");
    let host = described(&to);
    assert_eq!(host.kernel.as_deref(), Some(&*output("uname", &["-r"])));
    assert_eq!(host.architecture.as_deref(), Some(&*output("uname", &["-m"])));
    assert_eq!(host.cpus, output("getconf", &["_NPROCESSORS_ONLN"]).parse().ok());
    let memory = fs::read_to_string("/proc/meminfo").unwrap();
    let kib: u64 = memory.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert_eq!(host.memory, Some(kib * 1024));
    assert_eq!(host.labels.as_deref(), Some("cloud=own;region=eu-central-1"));
    let sysctl = |name: &str| fs::read_to_string(Path::new("/proc/sys/net").join(name)).unwrap();
    let algorithm = sysctl("ipv4/tcp_congestion_control");
    assert_eq!(host.congestion_control.as_deref(), Some(algorithm.trim()));
    let buffers = sysctl("ipv4/tcp_rmem");
    assert_eq!(host.tcp_rmem_max, buffers.split_whitespace().last().unwrap().parse().ok());
    assert_eq!(
        (host.source.as_deref(), host.agent_version.as_deref()),
        (Some("probes"), Some("0.0.1"))
    );
    let name = to.of_hosts().remove(0);
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().replace('-', "");
    assert!(name.contains(&format!("/web-1-{}-", boot.trim())), "{name}");
    let hour = chrono::DateTime::from_timestamp_micros(host.time.0).unwrap();
    assert!(name.starts_with(&hour.format("hosts/date=%Y-%m-%d/hour=%H/").to_string()), "{name}");
    let bytes = fs::metadata(to.0.path().join(&name)).unwrap().len();
    assert!(bytes < 8192, "{bytes} bytes");
}

#[test]
fn whatever_is_tried_again_there_is_one_object_an_hour() {
    let (spool, to) = (Spool::new(1), Folder::new());
    let mut command = ship(spool.path(), &to.address());
    command.arg("--once");
    let hour = || chrono::Utc::now().format("%H").to_string();
    // Both in one hour, or else again.
    loop {
        let before = hour();
        assert!(ended(&mut command).0);
        let first = described(&to);
        assert!(ended(command.args(["--label", "new=yes"])).0, "what changed waits for its hour");
        if hour() == before {
            assert_eq!(described(&to), first, "nothing was written over");
            return;
        }
        to.of_hosts().iter().for_each(|name| fs::remove_file(to.0.path().join(name)).unwrap());
        command = ship(spool.path(), &to.address());
        command.arg("--once");
    }
}

#[test]
fn a_bucket_has_the_host_too_after_an_answer_that_was_lost() {
    let Some(mut server) = Server::start() else { return };
    let spool = Spool::new(1);
    let way = Troubled::before(server.port, |n| match n {
        0 => Trouble::AnswerCut,
        _ => Trouble::None,
    });
    let (good, said) = ended(ship_to(way.port, &spool, "s3://tables/fleet").arg("--once"));
    assert!(good && said.contains("again in"), "{said}");
    let host = server.objects().of_hosts();
    assert!(host.len() == 1 && host[0].starts_with("fleet/hosts/date="), "{host:?}");
}

#[test]
fn addresses_are_as_private_as_the_agents() {
    needs_root!();
    needs!("ip");
    let host = Namespace::new("host");
    for words in [
        "link set lo up",
        "addr add 192.0.2.77/28 dev lo",
        "addr add 192.0.2.78/28 dev lo",
        "addr add 198.51.100.1/32 dev lo",
        "addr add 2001:db8:1:2::7/64 dev lo nodad",
    ] {
        let words: Vec<&str> = ["ip"].into_iter().chain(words.split(' ')).collect();
        host.inside(|| run(&words));
    }
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("agent.toml");
    for (level, addresses) in
        [("prefix", None), ("full", Some("192.0.2.77 192.0.2.78 198.51.100.1 2001:db8:1:2::7"))]
    {
        fs::write(&config, format!("addresses = \"{level}\"\n")).unwrap();
        let (spool, to) = (Spool::new(1), Folder::new());
        let mut command = ship(spool.path(), &to.address());
        command.arg("--once").arg("--agent-config").arg(&config);
        let (good, said) = host.inside(|| ended(&mut command));
        assert!(good, "{said}");
        let row = described(&to);
        let prefixes = "192.0.2.0/24 198.51.100.0/24 2001:db8:1::/48";
        assert_eq!(
            row.prefixes.as_deref(),
            Some(prefixes),
            "without the link's and the loopback's"
        );
        assert_eq!(row.addresses.as_deref(), addresses);
    }
}

#[test]
fn labels_that_no_question_would_find_are_refused_before_anything_goes() {
    let (spool, to) = (Spool::new(1), Folder::new());
    spool.finish(1, 1);
    for (labels, words) in [
        (&["--label", "cloud"][..], "'cloud' has no value"),
        (&["--label", "a=b", "--label", "a=c"], "two labels are called 'a'"),
    ] {
        let (good, said) = ended(ship(spool.path(), &to.address()).arg("--once").args(labels));
        assert!(!good && said.contains(words), "{said}");
    }
    assert!(to.objects().is_empty() && to.of_hosts().is_empty());
}
