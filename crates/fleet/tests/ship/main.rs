//! The program `transom-fleet ship` itself: from a spool as the agent leaves it into a folder and
//! into a real S3 server, under kills and faults.

mod dashboard;
mod described;
#[path = "../questions/environment.rs"]
mod environment;
mod events;
mod faults;
mod followed;
mod gateway;
mod guarded;
mod killed;
mod once;
mod place;
mod running;
mod s3;
mod spool;
mod troubled;
