//! The columns: one row an event, one column a field of `transom_event::Raw`.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use arrow_array::{ArrayRef, StringArray};
use arrow_schema::{DataType, Field, Fields, Schema};
use transom_event::{CaState, Chrono, Kind, Place, TcpState};

/// The first twenty words of `transom_event::State`, in their order there.
pub(crate) const STATE_WORDS: [&str; 20] = [
    "cwnd",
    "ssthresh",
    "clamp",
    "snd_una",
    "snd_nxt",
    "rcv_nxt",
    "snd_wnd",
    "rcv_wnd",
    "packets_out",
    "sacked_out",
    "lost_out",
    "retrans_out",
    "rto_us",
    "srtt_us",
    "rttvar_us",
    "min_rtt_us",
    "send_queue",
    "recv_queue",
    "unsent",
    "delivered",
];

/// Where the numbers of `transom_event::Sack` that follow its blocks stand in [`STATE_WORDS`].
pub(crate) const SACK_WORDS: [usize; 8] = [0, 1, 3, 4, 8, 9, 10, 11];

/// Bits of `State::flags` and their columns; the two bits of `chrono` are a column of their own.
pub(crate) const FLAG_BITS: [(&str, u8); 6] = [
    ("cwnd_limited", 0),
    ("app_limited", 1),
    ("after", 4),
    ("paced", 5),
    ("in_slow_start", 6),
    ("ecn", 7),
];

/// Index of the first column of `open` in the schema.
pub(crate) const FIRST_OPEN: usize = 8 + STATE_WORDS.len() + 5 + FLAG_BITS.len() + 3;

/// The names of a byte: what it is called, or its number in digits.
fn names(name: impl Fn(u32) -> Option<&'static str>) -> ArrayRef {
    let text = |n: u32| name(n).map_or_else(|| n.to_string(), str::to_owned);
    Arc::new(StringArray::from_iter_values((0..=u32::from(u8::MAX)).map(text)))
}

/// Dictionaries whose key is the byte of the contract itself, so that the hot
/// path copies bytes and every file still carries the words.
pub(crate) struct Dictionaries {
    pub kind: ArrayRef,
    pub place: ArrayRef,
    pub ca_state: ArrayRef,
    pub tcp_state: ArrayRef,
    pub chrono: ArrayRef,
}

pub(crate) static DICTIONARIES: LazyLock<Dictionaries> = LazyLock::new(|| Dictionaries {
    kind: names(|n| Kind::from_number(n).map(Kind::name)),
    place: names(|n| Place::from_number(n).map(Place::name)),
    ca_state: names(|n| CaState::from_number(n).map(CaState::name)),
    tcp_state: names(|n| TcpState::from_number(n).map(TcpState::name)),
    chrono: names(|n| Chrono::from_number(n).map(Chrono::name)),
});

pub(crate) fn named() -> DataType {
    DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8))
}

pub(crate) fn sack_fields() -> Fields {
    Fields::from(vec![
        Field::new("left", DataType::UInt32, false),
        Field::new("right", DataType::UInt32, false),
    ])
}

pub(crate) fn sack_item() -> Arc<Field> {
    Arc::new(Field::new_struct("element", sack_fields(), false))
}

/// The columns of both formats, without metadata.
pub(crate) fn columns() -> Vec<Field> {
    use DataType::{Boolean, Int64, UInt8, UInt16, UInt32, UInt64, Utf8};
    let always = |name: &str, of: DataType| Field::new(name, of, false);
    let maybe = |name: &str, of: DataType| Field::new(name, of, true);
    let mut fields = vec![
        always("time_ns", Int64),
        always("kind", named()),
        always("where", named()),
        always("cookie", UInt64),
        always("tgid", UInt32),
        always("cpu", UInt16),
        always("aux0", UInt32),
        always("aux1", UInt32),
    ];
    fields.extend(STATE_WORDS.iter().map(|name| maybe(name, UInt32)));
    fields.extend([
        maybe("pacing_rate", UInt64),
        maybe("mss", UInt16),
        maybe("ca_state", named()),
        maybe("tcp_state", named()),
        maybe("chrono", named()),
    ]);
    fields.extend(FLAG_BITS.iter().map(|(name, _)| maybe(name, Boolean)));
    fields.push(maybe("backoff", UInt8));
    fields.push(maybe("send_buffer", UInt32));
    fields.push(maybe("write_blocked", Boolean));
    fields.extend([
        maybe("local_addr", Utf8),
        maybe("remote_addr", Utf8),
        maybe("local_port", UInt16),
        maybe("remote_port", UInt16),
        maybe("netns", UInt32),
        maybe("ifindex", UInt32),
        maybe("family", UInt16),
        maybe("cgroup", UInt64),
        maybe("comm", Utf8),
        maybe("algorithm", Utf8),
        maybe("mptcp", UInt32),
        Field::new("sack_blocks", DataType::List(sack_item()), true),
    ]);
    fields
}

pub(crate) fn schema(pairs: impl IntoIterator<Item = (String, String)>) -> Arc<Schema> {
    Arc::new(Schema::new_with_metadata(columns(), BTreeMap::from_iter(pairs)))
}
