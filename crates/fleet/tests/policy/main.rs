//! The program `transom-fleet policy` itself: against folders, a real S3 server, and DuckDB over rows
//! as they land.

#[path = "../questions/browser.rs"]
mod browser;
#[path = "../questions/environment.rs"]
mod environment;
mod keys;
mod program;
mod published;
mod raced;
mod refused;
mod rolled;
mod rows;
#[allow(dead_code, reason = "the port is for who is in this process")]
mod server;
mod shown;
mod taken_back;
mod told;
#[allow(dead_code, reason = "most of it happens to the shipper")]
#[path = "../ship/troubled.rs"]
mod troubled;
