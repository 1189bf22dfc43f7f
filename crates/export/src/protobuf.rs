//! The wire format of Protocol Buffers: the four kinds of field that we write.

const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const LENGTH_DELIMITED: u64 = 2;

/// One message under construction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn uint(mut self, field: u32, value: u64) -> Message {
        self.key(field, VARINT);
        self.varint(value);
        self
    }

    /// `int64`: a negative number takes ten bytes.
    pub fn int(self, field: u32, value: i64) -> Message {
        self.uint(field, value.cast_unsigned())
    }

    pub fn bool(self, field: u32, value: bool) -> Message {
        self.uint(field, value.into())
    }

    pub fn double(mut self, field: u32, value: f64) -> Message {
        self.key(field, FIXED_64);
        self.0.extend(value.to_le_bytes());
        self
    }

    pub fn text(self, field: u32, value: &str) -> Message {
        self.delimited(field, value.as_bytes())
    }

    pub fn message(self, field: u32, value: &Message) -> Message {
        self.delimited(field, &value.0)
    }

    fn delimited(mut self, field: u32, value: &[u8]) -> Message {
        self.key(field, LENGTH_DELIMITED);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    fn key(&mut self, field: u32, kind: u64) {
        self.varint(u64::from(field) << 3 | kind);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug, PartialEq)]
    enum Field {
        Uint(u64),
        Double(u64),
        Bytes(Vec<u8>),
    }

    fn varint(bytes: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return value;
            }
            shift += 7;
        }
    }

    fn fields(mut bytes: &[u8]) -> Vec<(u32, Field)> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let value = match key & 7 {
                VARINT => Field::Uint(varint(&mut bytes)),
                FIXED_64 => {
                    let (value, rest) = bytes.split_at(8);
                    bytes = rest;
                    Field::Double(u64::from_le_bytes(value.try_into().unwrap()))
                }
                LENGTH_DELIMITED => {
                    let length = varint(&mut bytes) as usize;
                    let (value, rest) = bytes.split_at(length);
                    bytes = rest;
                    Field::Bytes(value.to_vec())
                }
                kind => panic!("no kind {kind} is written"),
            };
            fields.push(((key >> 3) as u32, value));
        }
        fields
    }

    proptest! {
        #[test]
        fn every_field_comes_back_under_its_number(
            number in 1_u32..1 << 29, value: u64, signed: i64, real: f64, text: String,
        ) {
            let inner = Message::default().uint(number, value);
            let message = Message::default()
                .uint(number, value)
                .int(2, signed)
                .bool(3, true)
                .double(4, real)
                .text(5, &text)
                .message(6, &inner);
            let expected = vec![
                (number, Field::Uint(value)),
                (2, Field::Uint(signed as u64)),
                (3, Field::Uint(1)),
                (4, Field::Double(real.to_bits())),
                (5, Field::Bytes(text.into_bytes())),
                (6, Field::Bytes(inner.bytes().to_vec())),
            ];
            prop_assert_eq!(fields(message.bytes()), expected);
        }
    }
}
