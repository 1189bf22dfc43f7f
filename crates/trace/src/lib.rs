//! Trace files: write, read, convert.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod cells;
mod checksum;
mod columns;
pub mod convert;
mod csv;
mod decode;
mod full_files;
pub mod guarded;
mod identity;
mod live_arrow;
mod order;
mod parquet_file;
mod reader;
mod recorder;
mod schema;
mod stream;
mod table;
mod writer;

pub use checksum::KEY as CHECKSUM;
pub use convert::{Converted, Target};
pub use parquet_file::{remove_left, table_of_stream};
pub use reader::{Format, Reader};
pub use recorder::{Recorded, Recorder, Reserved, Rotation};
pub use schema::{Holds, TIME, holds};
pub use transom_raw_stream::{FORMAT_VERSION, Footer, Meta, realtime_offset_ns};
pub use writer::{Compression, Finished, Writer, WriterOptions};
