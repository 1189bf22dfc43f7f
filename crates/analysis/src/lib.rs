//! Events → series, episodes, limits, verdicts. Pure: no I/O, no clock.

mod recording;

pub use recording::{Connection, Mark, Point, Recording};
