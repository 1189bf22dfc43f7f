//! What people look at: the report page and its pictures, the live table.

pub mod report;
pub mod top;
