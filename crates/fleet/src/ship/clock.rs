//! The time of a shipper: the machine's, or that of many shippers that are simulated together.

use std::fmt::Debug;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[async_trait::async_trait]
pub trait Clock: Debug + Send + Sync {
    /// Since 1970.
    fn now(&self) -> Duration;
    async fn sleep(&self, time: Duration);
}

/// The clock of this machine.
#[derive(Debug)]
pub struct Machine;

#[async_trait::async_trait]
impl Clock for Machine {
    fn now(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}
