//! What the agent leaves on disk: one row per connection, one per rare decision, in Parquet files
//! that are whole at any moment. The rows, their columns, the verdict of a row, and the files.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod agent_row;
mod ask;
mod chunk;
mod column;
mod connection;
mod decision;
mod file;
mod host;
mod host_row;
#[cfg(feature = "json")]
mod json;
mod kept;
mod missing;
mod packing;
mod prefix;
mod rtt;
mod summary;
mod table;
mod values;
mod verdict;

pub use agent_row::{AgentEvent, AgentRow};
pub use ask::{Answer, Prelude, Question, Recorded, Slow, Wanted, answer, held_back_us};
#[doc(hidden)]
pub use column::kind_of;
pub use column::{Cell, Column, Field, Kind, Privacy, Row, Text, Time};
pub use connection::{Chosen, Connection, Direction, Ended, RowKind, Source};
pub use decision::{CaState, Decided, Decision};
pub use file::{BEGUN, FileName, Table, list, next_number};
pub use host::host_name;
pub use host_row::HostRow;
#[cfg(feature = "json")]
pub use json::{of_object, to_object};
pub use kept::{Refused, of_file, rows_of};
pub use missing::silence;
pub use prefix::{address, prefix};
pub use rtt::{BUCKETS, RttSamples};
pub use summary::Summary;
pub use table::{BOOT, TABLE, VERSION, boot_of, later_version, read, table_of, write};
#[doc(hidden)]
pub use values::Values;
pub use verdict::{Cause, Verdict};
