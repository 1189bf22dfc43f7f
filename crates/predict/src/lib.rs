//! From a recorded connection to a path, and what other settings would have done on it. Pure: the
//! simulator is behind a trait.
//!
//! ```text
//! recording ──► fit ──► model ──► replay ──► matches? ──► changes, over all models that match
//! ```

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod bounds;
mod change;
mod check;
mod fit;
mod interval;
mod measure;
mod model;
mod observation;
mod parameter;
mod policy;
mod queue;
mod runner;
mod scene;
mod simulator;
mod suggest;
pub mod text;
mod verify;
mod whatif;

pub use change::{Change, Lift, Steady, levers, usual};
pub use check::{Mismatch, mismatches};
pub use fit::{Unfit, fit};
pub use interval::Interval;
pub use measure::{Measured, of_connection, of_recording};
pub use model::{Misfit, Model, Path, Policed, Program, Receiver, Sender};
pub use parameter::Parameter;
pub use policy::{For, policy};
pub use scene::{RECEIVER, SENDER, Scene, scenario};
pub use simulator::Simulator;
pub use suggest::{Harm, Lever, Machine, Place, Suggestion, Undecided, suggest};
pub use verify::{Verified, change_between, verify};
pub use whatif::{Effort, Others, Prediction, Watch, WhatIf, whatif};
