//! What Transom's programs tell Prometheus: the definitions of their metrics, and the dashboards and
//! alert rules that are made of them, so that no query asks for a metric that is not served.

pub mod agent;
pub mod alerts;
pub mod dashboard;
mod definition;
pub mod queries;
pub mod rollout;
pub mod ship;

pub use definition::{Base, Definition, Kind};
