//! Into a server that checks what it is asked: whose names they are, signatures, regions and clocks.

use std::process::Command;

use transom_testbed::needs;

use crate::gateway::{Gateway, policy_of, with_resource};
use crate::killed::{kill_often, kills};
use crate::place::ended;
use crate::s3::with_keys;
use crate::spool::{BOOT, Spool};
use crate::troubled::{Trouble, Troubled};

const TO: &str = "s3://tables/fleet";

#[test]
fn a_host_writes_below_its_own_name_only() {
    needs!("curl");
    // The name of one begins like that of the other.
    let hosts = ["web", "web-1"];
    let Some(gateway) = Gateway::start(&hosts) else { return };
    let goes = |user: &str, host: &str, number: u32, to: &str| {
        let spool = Spool::new(1);
        spool.finish(number, 10);
        let (good, said) = ended(gateway.ship(user, host, &spool, to).arg("--once"));
        assert!(good || said.contains("the keys do not allow it: AccessDenied"), "{said}");
        good
    };
    assert!(!goes("web", "web", 1, TO), "without any policy the server lets nobody");
    gateway.set_policy(&policy_of(&hosts));
    assert!(goes("web", "web", 2, TO) && goes("web-1", "web-1", 3, TO));
    let own = gateway.objects();
    assert_eq!(own.len(), 6);
    for host in hosts {
        assert!(own.iter().any(|name| name.contains(&format!("/{host}-{BOOT}-"))), "{own:?}");
    }
    for (user, host, to) in
        [("web", "web-1", TO), ("web-1", "web", TO), ("web", "web", "s3://tables/other")]
    {
        assert!(!goes(user, host, 4, to), "{user} as {host} to {to}");
    }
    assert_eq!(gateway.objects(), own);
    // An asterisk after the name is not enough, since one name may begin like another.
    gateway.set_policy(&with_resource(policy_of(&["web"]), "fleet/*/web-*"));
    assert!(goes("web", "web-1", 4, TO));
    gateway.set_policy(&with_resource(policy_of(&["web-1"]), "*"));
    assert!(goes("web-1", "web", 5, TO), "without the policy it can");
    assert_eq!(gateway.objects().len(), 12);
}

#[test]
fn an_object_is_written_once() {
    needs!("curl");
    let Some(gateway) = Gateway::start(&["web"]) else { return };
    gateway.set_policy(&policy_of(&["web"]));
    let (spool, clone) = (Spool::new(1), Spool::new(2));
    spool.finish(1, 10);
    clone.finish(1, 10);
    let mut command = gateway.ship("web", "web", &spool, TO);
    command.arg("--once");
    let (good, said) = ended(&mut command);
    assert!(good && said.contains("3 files landed"), "{said}");
    let before = gateway.cookies();
    std::fs::remove_file(spool.path().join("shipped")).unwrap();
    let (good, said) = ended(&mut command);
    assert!(good && said.contains("3 of them before"), "{said}");
    let (good, said) = ended(gateway.ship("web", "web", &clone, TO).arg("--once"));
    assert!(!good && said.contains("a clone"), "{said}");
    assert_eq!((gateway.cookies(), gateway.objects().len()), (before, 3));
}

#[test]
fn no_row_is_lost_or_doubled_with_signatures_checked_whatever_the_way_does() {
    needs!("curl");
    let Some(gateway) = Gateway::start(&["web"]) else { return };
    gateway.set_policy(&policy_of(&["web"]));
    let way = Troubled::before(gateway.port, |n| match n % 20 {
        4 => Trouble::AnswerCut,
        9 => Trouble::RequestCut,
        14 => Trouble::Slower,
        19 => Trouble::Internal,
        _ => Trouble::None,
    });
    let spool = Spool::new(1);
    let ship = || gateway.ship_by(&way, "web", "web", &spool, TO);
    let at_work = kill_often(&spool, ship, kills());
    assert!(at_work > 0, "it was killed at work");
    let (good, said) = ended(ship().arg("--once"));
    assert!(good, "{said}");
    let mut cookies = gateway.cookies();
    let all = cookies.len();
    cookies.dedup();
    assert_eq!((cookies.len(), all), (20 * kills() as usize, 20 * kills() as usize));
}

#[test]
fn keys_a_region_or_a_bucket_that_are_wrong_are_told_apart() {
    needs!("curl");
    let Some(gateway) = Gateway::start(&["web"]) else { return };
    gateway.set_policy(&policy_of(&["web"]));
    for (name, value, words) in [
        ("AWS_ACCESS_KEY_ID", "nobody", "the keys do not allow it: InvalidAccessKeyId"),
        ("AWS_SECRET_ACCESS_KEY", "wrong", "the keys do not allow it: SignatureDoesNotMatch"),
        ("AWS_REGION", "eu-west-1", "another region: set AWS_REGION=us-east-1"),
    ] {
        let spool = Spool::new(1);
        spool.finish(1, 1);
        let (good, said) =
            ended(gateway.ship("web", "web", &spool, TO).arg("--once").env(name, value));
        assert!(!good && said.contains(words), "{said}");
    }
    let spool = Spool::new(1);
    spool.finish(1, 1);
    let (good, said) =
        ended(gateway.ship("web", "web", &spool, "s3://no-such-bucket").arg("--once"));
    assert!(!good && said.contains("no such bucket"), "{said}");
    assert!(gateway.objects().is_empty());
}

#[test]
fn a_host_that_follows_tells_a_lacking_bucket_and_wrong_keys_from_a_lacking_policy() {
    let Some(gateway) = Gateway::start(&[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let follow = |from: &str, secret: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_transom-fleet"));
        command.args(["follow", "--once", "--from", from, "--to"]).arg(folder.path());
        with_keys(&mut command, gateway.port, "owner", secret);
        let (good, said) = ended(&mut command);
        assert!(!good, "{said}");
        said
    };
    let lacking = follow("s3://tables/fleet", "secret-of-owner");
    assert!(lacking.contains("policy/current is not there"), "{lacking}");
    let nowhere = follow("s3://no-such-bucket/fleet", "secret-of-owner");
    assert!(nowhere.contains("there is no such bucket"), "{nowhere}");
    let wrong = follow("s3://tables/fleet", "wrong");
    assert!(wrong.contains("correct AWS_ACCESS_KEY_ID"), "{wrong}");
    assert!(!wrong.contains("s3:ListBucket"), "{wrong}");
}

/// The same program, to which the clock is that much off.
fn at_another_time(command: &Command, offset: &str) -> Command {
    let mut moved = Command::new("faketime");
    moved.args(["-f", offset]).arg(command.get_program()).args(command.get_args()).env_clear();
    moved.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    moved
}

#[test]
fn with_a_clock_a_day_wrong_files_wait_and_the_servers_time_is_said() {
    needs!("curl", "faketime");
    let Some(gateway) = Gateway::start(&["web"]) else { return };
    gateway.set_policy(&policy_of(&["web"]));
    let spool = Spool::new(1);
    spool.finish(1, 10);
    let mut command = gateway.ship("web", "web", &spool, TO);
    command.arg("--once");
    for offset in ["-1d", "+1d"] {
        let (good, said) = ended(&mut at_another_time(&command, offset));
        let today = chrono::Utc::now().format("(the server's: 20%y-").to_string();
        assert!(!good && said.contains("clock is wrong") && said.contains(&today), "{said}");
        assert!(gateway.objects().is_empty());
    }
    let (good, said) = ended(&mut command);
    assert!(good && said.contains("3 files landed"), "{said}");
    assert_eq!(gateway.cookies().len(), 10);
}
