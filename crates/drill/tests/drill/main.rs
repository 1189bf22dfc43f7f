//! A host is asked over Zenoh: a real agent's spool, real programs, and sockets between namespaces.

mod asked;
mod explained;
mod fetched;
mod host;
mod missing;
mod protected;
mod refused;
