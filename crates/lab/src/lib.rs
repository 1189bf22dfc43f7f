//! The testbed: experiments on emulated air and path, what they measured, and
//! whether that is what the papers published.

pub mod claims;
pub mod compare;
pub mod experiment;
pub mod measure;
pub mod page;
pub mod result;
pub mod sweep;
