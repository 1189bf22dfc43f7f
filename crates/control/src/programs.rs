//! What `build.rs` makes of `bpf/steady.bpf.c` and `bpf/policy.bpf.c`.

#[allow(clippy::all, dead_code, unused, non_camel_case_types)]
mod policy_skeleton {
    include!(concat!(env!("OUT_DIR"), "/policy.skel.rs"));
}

#[cfg(test)]
pub use policy_skeleton::types as layout;

/// ELF wants its headers aligned.
#[repr(C, align(8))]
struct Aligned<T: ?Sized>(T);

static STEADY_OBJECT: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/steady.bpf.o")));
static POLICY_OBJECT: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/policy.bpf.o")));

pub fn steady() -> &'static [u8] {
    &STEADY_OBJECT.0
}

pub fn policy() -> &'static [u8] {
    &POLICY_OBJECT.0
}
