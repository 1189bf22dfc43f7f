//! Emulated air and path between network namespaces: pure elements in logical
//! time, and the one thread that carries real packets through them.

pub mod plan;
