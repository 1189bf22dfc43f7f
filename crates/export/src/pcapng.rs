//! Blocks and options of pcapng (draft-ietf-opsawg-pcapng), little-endian.

/// Block types.
pub(crate) const SECTION_HEADER: u32 = 0x0a0d_0d0a;
pub(crate) const INTERFACE: u32 = 1;
pub(crate) const PACKET: u32 = 6;
pub(crate) const CUSTOM: u32 = 0x0000_0bad;

/// Options of any block.
pub(crate) const COMMENT: u16 = 1;
/// Custom binary data that a program may copy to another file.
pub(crate) const CUSTOM_BINARY: u16 = 2989;

/// Options of a section header.
pub(crate) const SECTION_OS: u16 = 3;
pub(crate) const SECTION_PROGRAM: u16 = 4;

/// Options of an interface description.
pub(crate) const INTERFACE_NAME: u16 = 2;
pub(crate) const INTERFACE_DESCRIPTION: u16 = 3;
pub(crate) const INTERFACE_RESOLUTION: u16 = 9;

/// Options of a packet.
pub(crate) const PACKET_FLAGS: u16 = 2;

/// Packets begin with their IP header.
pub(crate) const RAW_IP: u16 = 101;

const END_OF_OPTIONS: u16 = 0;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// The length of a section is not known in advance.
const LENGTH_UNKNOWN: u64 = u64::MAX;

/// An option's length has 16 bits.
const LONGEST_OPTION: usize = 0xffff;

/// One block under construction.
#[derive(Debug)]
pub(crate) struct Block {
    bytes: Vec<u8>,
    has_options: bool,
}

impl Block {
    pub fn new(kind: u32) -> Block {
        let mut block = Block { bytes: Vec::with_capacity(512), has_options: false };
        block.u32(kind);
        // Its length, filled in at the end.
        block.u32(0);
        block
    }

    /// The first block of a file.
    pub fn section_header() -> Block {
        let mut block = Block::new(SECTION_HEADER);
        block.u32(BYTE_ORDER_MAGIC);
        block.bytes.extend(1_u16.to_le_bytes());
        block.bytes.extend(0_u16.to_le_bytes());
        block.bytes.extend(LENGTH_UNKNOWN.to_le_bytes());
        block
    }

    /// An interface whose packets have times with so many decimal places of a second.
    pub fn interface(link: u16, longest: u32, decimals: u8) -> Block {
        let mut block = Block::new(INTERFACE);
        block.bytes.extend(link.to_le_bytes());
        block.bytes.extend([0; 2]);
        block.u32(longest);
        block.option(INTERFACE_RESOLUTION, &[&[decimals]]);
        block
    }

    /// A packet, with its time in units of its interface and its length before it was cut.
    pub fn packet(interface: u32, time: u64, length: u32, bytes: &[u8]) -> Block {
        let mut block = Block::new(PACKET);
        block.u32(interface);
        block.u32((time >> 32) as u32);
        block.u32(time as u32);
        block.u32(bytes.len() as u32);
        block.u32(length);
        block.bytes.extend_from_slice(bytes);
        block.pad();
        block
    }

    pub fn u32(&mut self, value: u32) {
        self.bytes.extend(value.to_le_bytes());
    }

    pub fn option(&mut self, code: u16, parts: &[&[u8]]) {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        debug_assert!(length <= LONGEST_OPTION);
        self.has_options = true;
        self.bytes.extend(code.to_le_bytes());
        self.bytes.extend((length as u16).to_le_bytes());
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        self.pad();
    }

    /// Text, cut where an option must end.
    pub fn text(&mut self, code: u16, text: &str) {
        let mut end = text.len().min(LONGEST_OPTION);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.option(code, &[&text.as_bytes()[..end]]);
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// The whole block.
    pub fn end(mut self) -> Vec<u8> {
        if self.has_options {
            self.u32(END_OF_OPTIONS.into());
        }
        let length = self.bytes.len() as u32 + 4;
        self.u32(length);
        self.bytes[4..8].copy_from_slice(&length.to_le_bytes());
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number(bytes: &[u8], at: usize) -> usize {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
    }

    /// The options of a block whose fixed part has this many bytes.
    fn options(block: &[u8], fixed: usize) -> Vec<(u16, Vec<u8>)> {
        let mut rest = &block[8 + fixed..block.len() - 4];
        let mut options = Vec::new();
        while !rest.is_empty() {
            let [code, length] = [0, 2].map(|at| u16::from_le_bytes([rest[at], rest[at + 1]]));
            let value = &rest[4..4 + usize::from(length)];
            options.push((code, value.to_vec()));
            rest = &rest[4 + usize::from(length).next_multiple_of(4)..];
        }
        options
    }

    proptest! {
        #[test]
        fn every_option_comes_back_from_a_block_that_says_its_length_twice(
            texts in proptest::collection::vec(".{0,40}", 0..5),
            binary: Vec<u8>,
        ) {
            let mut block = Block::new(CUSTOM);
            block.u32(7);
            for text in &texts {
                block.text(COMMENT, text);
            }
            block.option(CUSTOM_BINARY, &[b"ab", &binary]);
            let bytes = block.end();
            prop_assert_eq!(number(&bytes, 0), CUSTOM as usize);
            prop_assert_eq!(number(&bytes, 4), bytes.len());
            prop_assert_eq!(number(&bytes, bytes.len() - 4), bytes.len());
            prop_assert_eq!(bytes.len() % 4, 0);
            let mut expected: Vec<(u16, Vec<u8>)> =
                texts.iter().map(|text| (COMMENT, text.clone().into_bytes())).collect();
            expected.push((CUSTOM_BINARY, [b"ab", &binary[..]].concat()));
            expected.push((END_OF_OPTIONS, Vec::new()));
            prop_assert_eq!(options(&bytes, 4), expected);
        }
    }

    #[test]
    fn a_text_that_is_too_long_is_cut_between_two_characters() {
        let mut block = Block::new(CUSTOM);
        block.text(COMMENT, &"é".repeat(40_000));
        let (_, value) = options(&block.end(), 0).remove(0);
        assert_eq!(value.len(), LONGEST_OPTION - 1);
        assert!(String::from_utf8(value).is_ok());
    }
}
