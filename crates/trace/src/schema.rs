//! The columns, one row per event, in two shapes.
//!
//! While it is being recorded a trace has the fields of `transom_event::Raw` and no more, which
//! costs the recorder least. The table that others read has what they need at hand: wall time, the
//! connection on every row, and each number of a kind of event under a name of its own.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use arrow_array::{ArrayRef, StringArray};
use arrow_schema::TimeUnit;
use arrow_schema::{DataType, Field, Fields, Schema};
use transom_event::fields::{FIELDS, Field as Said, Form};
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
    "mdev_us",
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

/// Index of the first column of `open` among [`raw_columns`].
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

/// A word for each number of a byte.
pub(crate) fn named() -> DataType {
    DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8))
}

pub(crate) fn sack_fields() -> Fields {
    Fields::from(vec![
        Field::new("left_edge", DataType::UInt32, false),
        Field::new("right_edge", DataType::UInt32, false),
    ])
}

pub(crate) fn sack_item() -> Arc<Field> {
    Arc::new(Field::new_struct("element", sack_fields(), false))
}

/// A text that many rows have.
pub(crate) fn repeated() -> DataType {
    DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::Utf8))
}

/// Wall time, µs.
pub(crate) fn wall_time() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// What the two numbers of an event say, under one name for all kinds that have it.
pub(crate) struct Detail {
    pub name: &'static str,
    pub unit: &'static str,
    pub form: Form,
    pub fields: Vec<&'static Said>,
    /// The words of a [`Form::Word`].
    pub dictionary: Option<ArrayRef>,
}

impl Detail {
    fn data_type(&self) -> DataType {
        match self.form {
            Form::Number => DataType::UInt32,
            Form::Flag => DataType::Boolean,
            Form::Word(_) => named(),
        }
    }
}

/// In the order in which their kinds are numbered.
pub(crate) static DETAILS: LazyLock<Vec<Detail>> = LazyLock::new(|| {
    let mut details: Vec<Detail> = Vec::new();
    for field in FIELDS {
        if let Some(known) = details.iter_mut().find(|known| known.name == field.name) {
            known.fields.push(field);
            continue;
        }
        let dictionary = match field.form {
            Form::Word(words) => Some(names(words.name)),
            Form::Number | Form::Flag => None,
        };
        let (name, unit, form) = (field.name, field.unit, field.form);
        details.push(Detail { name, unit, form, fields: vec![field], dictionary });
    }
    details
});

fn always(name: &str, of: DataType) -> Field {
    Field::new(name, of, false)
}

fn maybe(name: &str, of: DataType) -> Field {
    Field::new(name, of, true)
}

/// What every event has.
fn heads() -> [Field; 6] {
    use DataType::{Int64, UInt16, UInt32, UInt64};
    [
        always("time_ns", Int64),
        always("kind", named()),
        always("place", named()),
        always("cookie", UInt64),
        always("tgid", UInt32),
        always("cpu", UInt16),
    ]
}

/// The state of the connection.
fn states() -> Vec<Field> {
    use DataType::{Boolean, UInt8, UInt16, UInt32, UInt64};
    let mut fields: Vec<Field> = STATE_WORDS.iter().map(|name| maybe(name, UInt32)).collect();
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
    fields
}

/// Which connection it is, as far as all of its rows say so in the table.
fn ends(text: DataType) -> [Field; 6] {
    [
        maybe("local_addr", text.clone()),
        maybe("remote_addr", text.clone()),
        maybe("local_port", DataType::UInt16),
        maybe("remote_port", DataType::UInt16),
        maybe("program", text.clone()),
        maybe("algorithm", text),
    ]
}

/// The rest of it.
fn whereabouts() -> [Field; 5] {
    [
        maybe("netns", DataType::UInt32),
        maybe("ifindex", DataType::UInt32),
        maybe("family", DataType::UInt16),
        maybe("cgroup", DataType::UInt64),
        maybe("mptcp", DataType::UInt32),
    ]
}

fn sack_blocks() -> Field {
    maybe("sack_blocks", DataType::List(sack_item()))
}

/// The columns of a recording that has not ended.
pub(crate) fn raw_columns() -> Vec<Field> {
    let mut fields = Vec::from(heads());
    fields.extend([always("aux0", DataType::UInt32), always("aux1", DataType::UInt32)]);
    fields.extend(states());
    fields.extend(ends(DataType::Utf8));
    fields.extend(whereabouts());
    fields.push(sack_blocks());
    fields
}

/// The columns of the table.
pub(crate) fn columns() -> Vec<Field> {
    let mut fields = vec![maybe(TIME, wall_time())];
    fields.extend(heads());
    fields.extend(ends(repeated()));
    fields.extend(DETAILS.iter().map(|detail| maybe(detail.name, detail.data_type())));
    fields.extend(states());
    fields.extend(whereabouts());
    fields.push(sack_blocks());
    fields
}

/// When an event was, in the table.
pub const TIME: &str = "time_utc";

/// What a column of the table holds, whatever the engine calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    Integer,
    Flag,
    /// Microseconds since 1970, UTC.
    Time,
    Text,
    /// More than one value: the edges of SACK blocks.
    List,
}

/// The columns of the table, in their order.
pub fn holds() -> Vec<(String, Holds)> {
    let of = |field: &Field| {
        let holds = match field.data_type() {
            DataType::Timestamp(..) => Holds::Time,
            DataType::Boolean => Holds::Flag,
            DataType::Dictionary(..) | DataType::Utf8 => Holds::Text,
            DataType::List(_) => Holds::List,
            _ => Holds::Integer,
        };
        (field.name().clone(), holds)
    };
    columns().iter().map(of).collect()
}

/// Units of the columns that have one; those of the details are in `transom_event::fields`.
const UNITS: [(&str, &str); 28] = [
    ("time_utc", "us"),
    ("time_ns", "ns"),
    ("cwnd", "segments"),
    ("ssthresh", "segments"),
    ("clamp", "segments"),
    ("snd_una", "sequence number"),
    ("snd_nxt", "sequence number"),
    ("rcv_nxt", "sequence number"),
    ("snd_wnd", "bytes"),
    ("rcv_wnd", "bytes"),
    ("packets_out", "segments"),
    ("sacked_out", "segments"),
    ("lost_out", "segments"),
    ("retrans_out", "segments"),
    ("rto_us", "us"),
    ("srtt_us", "us"),
    ("mdev_us", "us"),
    ("min_rtt_us", "us"),
    ("send_queue", "bytes"),
    ("recv_queue", "bytes"),
    ("send_buffer", "bytes"),
    ("unsent", "bytes"),
    ("delivered", "segments"),
    ("pacing_rate", "bytes/s"),
    ("mss", "bytes"),
    ("backoff", "doublings"),
    ("netns", "inode number"),
    ("sack_blocks", "sequence numbers"),
];

/// The units of all columns, as one JSON object.
pub(crate) fn units() -> String {
    let details = DETAILS.iter().map(|detail| (detail.name, detail.unit));
    let all = UNITS.into_iter().chain(details).filter(|(_, unit)| !unit.is_empty());
    serde_json::Value::from_iter(all).to_string()
}

fn with_metadata(
    columns: Vec<Field>,
    pairs: impl IntoIterator<Item = (String, String)>,
) -> Arc<Schema> {
    Arc::new(Schema::new_with_metadata(columns, BTreeMap::from_iter(pairs)))
}

pub(crate) fn raw_schema(pairs: impl IntoIterator<Item = (String, String)>) -> Arc<Schema> {
    with_metadata(raw_columns(), pairs)
}

pub(crate) fn schema(pairs: impl IntoIterator<Item = (String, String)>) -> Arc<Schema> {
    with_metadata(columns(), pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ISO/IEC 9075-2:2016, 5.2, <reserved word>.
    const RESERVED: &str = "abs acos all allocate alter and any are array array_agg \
        array_max_cardinality as asensitive asin asymmetric at atan atomic authorization avg begin \
        begin_frame begin_partition between bigint binary blob boolean both by call called \
        cardinality cascaded case cast ceil ceiling char char_length character character_length \
        check classifier clob close coalesce collate collect column commit condition connect \
        constraint contains convert copy corr corresponding cos cosh count covar_pop covar_samp \
        create cross cube cume_dist current current_catalog current_date \
        current_default_transform_group current_path current_role current_row current_schema \
        current_time current_timestamp current_transform_group_for_type current_user cursor cycle \
        date day deallocate dec decfloat decimal declare default define delete dense_rank deref \
        describe deterministic disconnect distinct double drop dynamic each element else empty end \
        end_frame end_partition end-exec equals escape every except exec execute exists exp \
        external extract false fetch filter first_value float floor for foreign frame_row free \
        from full function fusion get global grant group grouping groups having hold hour identity \
        in indicator initial inner inout insensitive insert int integer intersect intersection \
        interval into is join json_array json_arrayagg json_exists json_object json_objectagg \
        json_query json_table json_table_primitive json_value lag language large last_value \
        lateral lead leading left like like_regex listagg ln local localtime localtimestamp log \
        log10 lower match match_number match_recognize matches max member merge method min minute \
        mod modifies module month multiset national natural nchar nclob new no none normalize not \
        nth_value ntile null nullif numeric occurrences_regex octet_length of offset old omit on \
        one only open or order out outer over overlaps overlay parameter partition pattern per \
        percent percent_rank percentile_cont percentile_disc period portion position \
        position_regex power precedes precision prepare primary procedure ptf range rank reads \
        real recursive ref references referencing regr_avgx regr_avgy regr_count regr_intercept \
        regr_r2 regr_slope regr_sxx regr_sxy regr_syy release result return returns revoke right \
        rollback rollup row row_number rows running savepoint scope scroll search second seek \
        select sensitive session_user set show similar sin sinh skip smallint some specific \
        specifictype sql sqlexception sqlstate sqlwarning sqrt start static stddev_pop stddev_samp \
        submultiset subset substring substring_regex succeeds sum symmetric system system_time \
        system_user table tablesample tan tanh then time timestamp timezone_hour timezone_minute \
        to trailing translate translate_regex translation treat trigger trim trim_array true \
        truncate uescape union unique unknown unnest update upper user using value value_of values \
        var_pop var_samp varbinary varchar varying versioning when whenever where width_bucket \
        window with within without year";

    #[test]
    fn no_column_is_a_reserved_word_of_sql() {
        let edges = sack_fields();
        let columns = columns();
        let names = columns.iter().map(Field::name).chain(edges.iter().map(|edge| edge.name()));
        for name in names {
            assert!(!RESERVED.split_whitespace().any(|word| word == name), "{name}");
        }
    }

    #[test]
    fn every_unit_is_of_a_column_and_every_name_of_time_and_bytes_has_one() {
        let units: serde_json::Value = serde_json::from_str(&units()).unwrap();
        let columns = columns();
        for name in units.as_object().unwrap().keys() {
            assert!(columns.iter().any(|column| column.name() == name), "{name}");
        }
        let is_measure = |name: &str| name.ends_with("_us") || name.ends_with("_bytes");
        for column in columns.iter().filter(|column| is_measure(column.name())) {
            assert!(units.get(column.name()).is_some(), "{}", column.name());
        }
    }

    #[test]
    fn every_column_is_on_its_page() {
        let page = include_str!("../../../docs/trace-format.md");
        for (name, _) in holds() {
            assert!(page.contains(&format!("`{name}`")), "{name}");
        }
    }
}
