//! The shippers of a small fleet against a real S3 server, on a clock that stands still while they
//! work, through an outage of an hour.

mod counted;
mod crowd;
mod stopped;
mod told;

#[path = "../questions/environment.rs"]
mod environment;
#[path = "../policy/server.rs"]
#[allow(dead_code, reason = "who is in this process needs no variables")]
mod server;
#[path = "../ship/troubled.rs"]
#[allow(dead_code, reason = "there is one trouble here")]
mod troubled;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use counted::Counted;
use crowd::{Moment, Plan, Told, ship_all};
use object_store::RetryConfig;
use object_store::aws::{AmazonS3Builder, S3ConditionalPut};
use object_store::memory::InMemory;
use server::Server;
use transom_fleet::bucket::Bucket;
use transom_fleet::ship::clock;
use troubled::{Trouble, Troubled};

const MINUTE: Duration = Duration::from_secs(60);
const HOSTS: u32 = 24;

/// As the program opens it, but for the variables.
fn bucket(port: u16) -> Bucket {
    let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
    let store = AmazonS3Builder::new()
        .with_bucket_name("tables")
        .with_endpoint(format!("http://127.0.0.1:{port}"))
        .with_access_key_id("testing")
        .with_secret_access_key("testing")
        .with_region("us-east-1")
        .with_allow_http(true)
        .with_retry(retry)
        .with_conditional_put(S3ConditionalPut::ETagMatch);
    let _ = rustls::crypto::ring::default_provider().install_default();
    Bucket { store: Arc::new(store.build().unwrap()), address: "s3://tables".into() }
}

#[test]
fn after_an_outage_of_an_hour_all_lands_once_and_the_fleet_comes_back_spread() {
    let Some(server) = Server::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let plan = Plan {
        first: 0,
        hosts: HOSTS,
        rows: 5,
        before: 10 * MINUTE,
        outage: 60 * MINUTE,
        after: 20 * MINUTE,
        spread: 10 * MINUTE,
        read: 4,
    };
    // The bucket is in the server's memory, so it is the way there that breaks.
    let is_up = Arc::new(AtomicBool::new(true));
    let of_way = is_up.clone();
    let way = Troubled::before(server.port(), move |_| match of_way.load(Ordering::Relaxed) {
        true => Trouble::None,
        false => Trouble::RequestCut,
    });
    let told = ship_all(plan, &bucket(way.port), folder.path(), |moment| {
        is_up.store(moment != Moment::Down, Ordering::Relaxed);
        Ok(())
    })
    .unwrap();
    let before = told.before.asked as f64 / told.before.seconds as f64;
    println!("{told:?} in {:?}", told.real);
    assert!((0.12..0.2).contains(&before), "two files of 24 hosts in 300 s are {before} a second");
    // An hour of two files in five minutes.
    assert_eq!(told.backlog, HOSTS as usize * 24);
    assert!(told.outage.asked > 0 && told.outage.asked == told.outage.failed, "nobody answered");
    assert_eq!(told.before.failed + told.back.failed + told.after.failed, 0);
    assert!(told.landed_after <= plan.spread, "{:?}", told.landed_after);
    // A host that comes back ships its hour at once; not all hosts do in the same second.
    assert!(told.back.most_in_a_second() < 24 * u64::from(HOSTS) / 4, "{:?}", told.back);
    // An hour long, each host asks less and less: once in the time that they are spread over.
    let each = told.outage.asked / u64::from(HOSTS);
    assert!((6..=24).contains(&each), "{each} times in an hour");
    assert_eq!(told.rows_read, told.objects / 2 / 4 * 5);
}

static IS_UP: AtomicBool = AtomicBool::new(true);

/// In memory, and out of reach while it is not up.
fn bucket_in_memory() -> Bucket {
    let store = Counted::new(Arc::new(InMemory::new()), Arc::new(clock::Machine))
        .over(|_, _| IS_UP.load(Ordering::Relaxed).then_some(Duration::ZERO));
    Bucket { store: Arc::new(store), address: "s3://tables".into() }
}

#[test]
fn two_parts_of_a_fleet_in_one_bucket_do_together_what_it_does_in_one() {
    let ship = |bucket: &Bucket, first, hosts| {
        let folder = tempfile::tempdir().unwrap();
        let plan = Plan {
            first,
            hosts,
            rows: 5,
            before: 15 * MINUTE,
            outage: 10 * MINUTE,
            after: 10 * MINUTE,
            spread: 5 * MINUTE,
            read: 1,
        };
        ship_all(plan, bucket, folder.path(), |moment| {
            IS_UP.store(moment != Moment::Down, Ordering::Relaxed);
            Ok(())
        })
        .unwrap()
    };
    let whole = ship(&bucket_in_memory(), 0, HOSTS);
    let bucket = bucket_in_memory();
    let parts = [ship(&bucket, 0, 9), ship(&bucket, 9, HOSTS - 9)];
    let sum = |of: fn(&Told) -> usize| parts.iter().map(of).sum::<usize>();
    assert_eq!(whole.objects, sum(|told| told.objects));
    assert!(whole.described.min(sum(|told| told.described)) >= HOSTS as usize);
    assert_eq!(whole.rows_read, sum(|told| told.rows_read));
    assert_eq!(whole.backlog, sum(|told| told.backlog));
    // In which second a host asks is its own matter, also beside others.
    let mut together = BTreeMap::new();
    for (second, asked) in parts.iter().flat_map(|told| &told.before.each_second) {
        *together.entry(*second).or_insert(0) += asked;
    }
    assert_eq!(whole.before.each_second, together);
    assert!(together.len() > HOSTS as usize, "spread: {together:?}");
}
