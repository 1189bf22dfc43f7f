//! What `build.rs` makes of the programs in `bpf/`.

/// ELF wants its headers aligned.
#[repr(C, align(8))]
struct Aligned<T: ?Sized>(T);

static MONITOR_OBJECT: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/monitor.bpf.o")));
static JOURNAL_OBJECT: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/journal.bpf.o")));
static FEATURE_OBJECT: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/feature.bpf.o")));

pub fn monitor() -> &'static [u8] {
    &MONITOR_OBJECT.0
}

pub fn journal() -> &'static [u8] {
    &JOURNAL_OBJECT.0
}

pub fn feature() -> &'static [u8] {
    &FEATURE_OBJECT.0
}
