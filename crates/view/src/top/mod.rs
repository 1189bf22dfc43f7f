//! The live table of connections.
