//! What the two `aux` numbers of an event say, kind by kind: the names under which JSON, CSV and
//! Parquet have them, their types and units. Nothing else takes those numbers apart.

use crate::{
    Algorithm, CaState, Direction, Event, Kind, LossCause, Origin, Place, Reason, RetransmitReason,
    RtoCause, TcpState,
};

/// The words of a number.
#[derive(Clone, Copy)]
pub struct Words {
    pub name: fn(u32) -> Option<&'static str>,
    pub number: fn(&str) -> Option<u32>,
}

/// How a field is written.
#[derive(Clone, Copy)]
pub enum Form {
    Number,
    /// 0 or 1.
    Flag,
    /// A word each; its number in digits where there is none.
    Word(Words),
}

/// Bits of one of the two numbers of a kind of event.
#[derive(Clone, Copy)]
pub struct Field {
    pub kind: Kind,
    pub name: &'static str,
    /// Empty where there is none.
    pub unit: &'static str,
    pub form: Form,
    /// Which of the two numbers.
    pub aux: usize,
    pub shift: u32,
    pub bits: u32,
    /// Only of events at this place (true), or of those anywhere else (false).
    pub only: Option<(Place, bool)>,
}

/// What a field of an event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    Number(u32),
    Flag(bool),
    Word(&'static str),
}

macro_rules! words {
    ($type:ty) => {
        Form::Word(Words {
            name: |number| <$type>::from_number(number).map(<$type>::name),
            number: |name| <$type>::from_name(name).map(|value| value as u32),
        })
    };
}

const fn field(kind: Kind, name: &'static str, aux: usize, form: Form) -> Field {
    Field { kind, name, unit: "", form, aux, shift: 0, bits: 32, only: None }
}

const fn number(kind: Kind, name: &'static str, unit: &'static str, aux: usize) -> Field {
    Field { unit, ..field(kind, name, aux, Form::Number) }
}

impl Field {
    const fn part(self, shift: u32, bits: u32) -> Field {
        Field { shift, bits, ..self }
    }

    const fn at(self, place: Place, there: bool) -> Field {
        Field { only: Some((place, there)), ..self }
    }

    /// Whether an event of this kind and place has it.
    pub fn is_of(&self, kind: Kind, place: Place) -> bool {
        self.kind == kind && self.only.is_none_or(|(at, there)| (place == at) == there)
    }

    /// Its bits.
    pub fn get(&self, aux: [u32; 2]) -> u32 {
        (aux[self.aux] >> self.shift) & self.mask()
    }

    /// Puts its bits into numbers that have none there.
    pub fn put(&self, aux: &mut [u32; 2], value: u32) {
        aux[self.aux] |= (value & self.mask()) << self.shift;
    }

    fn mask(&self) -> u32 {
        u32::MAX >> (32 - self.bits)
    }

    /// What it says in these numbers.
    pub fn value(&self, aux: [u32; 2]) -> Value {
        let number = self.get(aux);
        match self.form {
            Form::Number => Value::Number(number),
            Form::Flag => Value::Flag(number == 1),
            Form::Word(words) => (words.name)(number).map_or(Value::Number(number), Value::Word),
        }
    }
}

/// All of them, by the number of the kind. The same name is the same column.
pub static FIELDS: &[Field] = &[
    field(Kind::Open, "origin", 0, words!(Origin)),
    number(Kind::Open, "snd_wscale", "bits", 1).part(0, 4),
    number(Kind::Open, "rcv_wscale", "bits", 1).part(4, 4),
    field(Kind::Open, "wscale_known", 1, Form::Flag).part(8, 1),
    number(Kind::Open, "early_bytes", "bytes", 1).part(9, 23),
    number(Kind::Close, "errno", "", 0),
    field(Kind::State, "old_tcp_state", 0, words!(TcpState)),
    field(Kind::State, "new_tcp_state", 1, words!(TcpState)),
    number(Kind::Ack, "acked_bytes", "bytes", 0),
    number(Kind::Ack, "cwnd_before", "segments", 1),
    number(Kind::Send, "payload_bytes", "bytes", 0),
    number(Kind::Send, "segments", "segments", 1),
    field(Kind::Retransmit, "retransmit_reason", 0, words!(RetransmitReason)).part(0, 8),
    number(Kind::Retransmit, "segments", "segments", 0).part(8, 24),
    number(Kind::Retransmit, "seq", "sequence number", 1),
    number(Kind::DupAck, "in_a_row", "", 0),
    field(Kind::DupAck, "with_sack", 1, Form::Flag),
    field(Kind::Sack, "d_sack", 1, Form::Flag),
    number(Kind::Rto, "in_a_row", "", 0),
    field(Kind::Rto, "rto_cause", 1, words!(RtoCause)),
    number(Kind::LocalCongestion, "drop_reason", "", 0).at(Place::QdiscDrop, true),
    number(Kind::LocalCongestion, "return_code", "", 0).at(Place::QdiscDrop, false),
    number(Kind::LocalCongestion, "refused_bytes", "bytes", 1),
    field(Kind::CaState, "old_ca_state", 0, words!(CaState)),
    field(Kind::CaState, "new_ca_state", 1, words!(CaState)),
    field(Kind::Reset, "direction", 0, words!(Direction)),
    number(Kind::Reset, "reset_reason", "", 1),
    field(Kind::ZeroWindow, "direction", 0, words!(Direction)),
    number(Kind::Clamp, "old_clamp", "segments", 0),
    number(Kind::Clamp, "new_clamp", "segments", 1),
    field(Kind::Action, "action_reason", 0, words!(Reason)).part(0, 8),
    number(Kind::Action, "action_rule", "", 0).part(8, 8),
    field(Kind::Action, "action_algorithm", 0, words!(Algorithm)).part(16, 8),
    number(Kind::Action, "initial_window", "segments", 0).part(24, 8),
    number(Kind::Action, "cap", "segments", 1),
    field(Kind::Lost, "lost_cause", 0, words!(LossCause)),
    number(Kind::Lost, "lost_count", "", 1),
    number(Kind::Owner, "old_tgid", "", 0),
];

/// The fields of an event, with their values.
pub fn fields(event: &Event) -> impl Iterator<Item = (&'static str, Value)> {
    of(event.kind, event.place, event.aux)
}

/// The fields of an event of this kind and place with these numbers.
pub fn of(kind: Kind, place: Place, aux: [u32; 2]) -> impl Iterator<Item = (&'static str, Value)> {
    let of = FIELDS.iter().filter(move |field| field.is_of(kind, place));
    of.map(move |field| (field.name, field.value(aux)))
}

/// Reason and number of segments of a [`Kind::Retransmit`].
pub fn retransmit(aux: [u32; 2]) -> (Option<RetransmitReason>, u32) {
    (RetransmitReason::from_number(aux[0] & 0xff), aux[0] >> 8)
}

/// Sequence number of the first byte of a [`Kind::Retransmit`].
pub fn retransmitted_seq(aux: [u32; 2]) -> u32 {
    aux[1]
}

/// How a [`Kind::Open`] came about.
pub fn origin(aux: [u32; 2]) -> Option<Origin> {
    Origin::from_number(aux[0])
}

/// The error that a [`Kind::Close`] left, 0 for none.
pub fn errno(aux: [u32; 2]) -> u32 {
    aux[0]
}

/// Old and new state of a [`Kind::State`].
pub fn tcp_states(aux: [u32; 2]) -> [Option<TcpState>; 2] {
    aux.map(TcpState::from_number)
}

/// Old and new congestion state of a [`Kind::CaState`].
pub fn ca_states(aux: [u32; 2]) -> [Option<CaState>; 2] {
    aux.map(CaState::from_number)
}

/// Old and new limit of a [`Kind::Clamp`], segments.
pub fn clamps(aux: [u32; 2]) -> [u32; 2] {
    aux
}

/// Bytes that a [`Kind::Ack`] newly acknowledged.
pub fn acked_bytes(aux: [u32; 2]) -> u32 {
    aux[0]
}

/// Payload bytes and segments of a [`Kind::Send`].
pub fn sent(aux: [u32; 2]) -> (u32, u32) {
    (aux[0], aux[1])
}

/// How many of a [`Kind::DupAck`] or a [`Kind::Rto`] there were in a row, this one included.
pub fn in_a_row(aux: [u32; 2]) -> u32 {
    aux[0]
}

/// Why a [`Kind::Rto`] entered Loss; `None` where it was not recorded.
pub fn rto_cause(aux: [u32; 2]) -> Option<RtoCause> {
    RtoCause::from_number(aux[1])
}

/// Whether a [`Kind::DupAck`] carried SACK blocks.
pub fn with_sack(aux: [u32; 2]) -> bool {
    aux[1] == 1
}

/// Shift counts of a [`Kind::Open`] (RFC 7323): of the windows that the other side offers, and of
/// those offered here; `None` where they were not recorded.
pub fn window_scaling(aux: [u32; 2]) -> Option<[u32; 2]> {
    (aux[1] >> 8 & 1 == 1).then(|| [aux[1] & 0xf, aux[1] >> 4 & 0xf])
}

/// Bytes that a [`Kind::Open`] says to have been acknowledged (connect) or received (accept) before it, as
/// those that a SYN carries (RFC 7413).
pub fn early_bytes(aux: [u32; 2]) -> u32 {
    aux[1] >> 9
}

/// Way of a [`Kind::Reset`] or a [`Kind::ZeroWindow`].
pub fn direction(aux: [u32; 2]) -> Option<Direction> {
    Direction::from_number(aux[0])
}

/// Whether the first block of a [`Kind::Sack`] is a D-SACK (RFC 2883).
pub fn is_d_sack(aux: [u32; 2]) -> bool {
    aux[1] == 1
}

/// Number of blocks of a [`Kind::Sack`].
pub fn sack_blocks(aux: [u32; 2]) -> usize {
    (aux[0] as usize).min(4)
}

/// Cause and number of a [`Kind::Lost`].
pub fn lost(aux: [u32; 2]) -> (Option<LossCause>, u32) {
    (LossCause::from_number(aux[0]), aux[1])
}

impl Event {
    /// See [`retransmit`].
    pub fn retransmit(&self) -> (Option<RetransmitReason>, u32) {
        retransmit(self.aux)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn one_name_is_one_form_and_one_unit() {
        let mut known = BTreeMap::new();
        for field in FIELDS {
            let form = (std::mem::discriminant(&field.form), field.unit);
            assert_eq!(*known.entry(field.name).or_insert(form), form, "{}", field.name);
        }
    }

    #[test]
    fn no_two_fields_of_an_event_share_a_bit() {
        for &kind in Kind::ALL {
            for &place in Place::ALL {
                let mut taken = [0; 2];
                for field in FIELDS.iter().filter(|field| field.is_of(kind, place)) {
                    let mut own = [0; 2];
                    field.put(&mut own, u32::MAX);
                    assert_eq!([own[0] & taken[0], own[1] & taken[1]], [0; 2], "{}", field.name);
                    taken = [own[0] | taken[0], own[1] | taken[1]];
                }
            }
        }
    }

    #[test]
    fn the_functions_agree_with_the_table() {
        let aux = [4 | 5 << 8, 7 | 3 << 4 | 1 << 8 | 1460 << 9];
        let of = |kind, name: &str| {
            let field = FIELDS.iter().find(|field| field.kind == kind && field.name == name);
            field.expect("a field").get(aux)
        };
        let (reason, segments) = retransmit(aux);
        assert_eq!(reason.map(|r| r as u32), Some(of(Kind::Retransmit, "retransmit_reason")));
        assert_eq!(segments, of(Kind::Retransmit, "segments"));
        assert_eq!(retransmitted_seq(aux), of(Kind::Retransmit, "seq"));
        let scales = ["snd_wscale", "rcv_wscale"].map(|name| of(Kind::Open, name));
        assert_eq!(window_scaling(aux), Some(scales));
        assert_eq!(early_bytes(aux), of(Kind::Open, "early_bytes"));
        assert_eq!(acked_bytes(aux), of(Kind::Ack, "acked_bytes"));
        assert_eq!(sent(aux), (of(Kind::Send, "payload_bytes"), of(Kind::Send, "segments")));
        assert_eq!(in_a_row(aux), of(Kind::DupAck, "in_a_row"));
        assert_eq!(in_a_row(aux), of(Kind::Rto, "in_a_row"));
        assert_eq!(clamps(aux), [of(Kind::Clamp, "old_clamp"), of(Kind::Clamp, "new_clamp")]);
    }

    #[test]
    fn the_fields_of_an_event_are_its_two_numbers() {
        let (kind, place) = (Kind::Retransmit, Place::RetransmitSkb);
        let aux = [2 | 3 << 8, 77];
        let (time_ns, cookie, tgid, cpu, body) = (0, 0, 0, 0, crate::Body::None);
        let event = Event { time_ns, cookie, tgid, cpu, kind, place, aux, body };
        let said: Vec<_> = fields(&event).collect();
        let expected = [
            ("retransmit_reason", Value::Word("rto")),
            ("segments", Value::Number(3)),
            ("seq", Value::Number(77)),
        ];
        assert_eq!(said, expected);
    }
}
