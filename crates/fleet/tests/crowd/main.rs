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

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crowd::{Plan, ship_all};
use object_store::RetryConfig;
use object_store::aws::{AmazonS3Builder, S3ConditionalPut};
use server::Server;
use transom_fleet::bucket::Bucket;
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
    let told = ship_all(plan, &bucket(way.port), folder.path(), |comes_back| {
        is_up.store(comes_back, Ordering::Relaxed);
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
    assert!(told.back.most < 24 * u64::from(HOSTS) / 4, "{} in a second", told.back.most);
    // An hour long, each host asks less and less: once in the time that they are spread over.
    let each = told.outage.asked / u64::from(HOSTS);
    assert!((6..=24).contains(&each), "{each} times in an hour");
    assert_eq!(told.rows_read, told.objects / 2 / 4 * 5);
}
