//! How long frames take in 802.11n (HT, mixed format), and which packets share one A-MPDU:
//! IEEE 802.11-2016, clause 19 (PHY), 9.7 and 10.13 (A-MPDU), ns.

use crate::packet::Nanos;
use crate::phy;

/// Coded bits a subcarrier and the share of data bits among them, of MCS 0 to 7; further streams
/// repeat them (tables 19-27 to 19-34 for 20 MHz).
const MODULATIONS: [(u64, u64, u64); 8] =
    [(1, 1, 2), (2, 1, 2), (2, 3, 4), (4, 1, 2), (4, 3, 4), (6, 2, 3), (6, 3, 4), (6, 5, 6)];
/// The highest MCS with the same modulation on all streams: four streams.
pub(crate) const HIGHEST_MCS: u32 = 31;

/// Data subcarriers in 20 and 40 MHz, table 19-6.
const SUBCARRIERS_20: u64 = 52;
const SUBCARRIERS_40: u64 = 108;

/// L-STF, L-LTF, L-SIG, HT-SIG, HT-STF: 8 + 8 + 4 + 8 + 4 µs, table 19-6.
const PREAMBLE: Nanos = 32_000;
/// Each HT-LTF.
const LONG_TRAINING: Nanos = 4_000;
const SYMBOL: Nanos = 4_000;
const SHORT_SYMBOL: Nanos = 3_600;
/// SERVICE bits, and the tail of each encoder, 19.3.11.
const SERVICE_BITS: u64 = 16;
const TAIL_BITS: u64 = 6;
/// Above this, 300 Mbit/s with the short guard interval, there are two encoders.
const MOST_BITS_OF_ENCODER: u64 = 1_080;

/// MAC header of a QoS data frame (26), LLC and SNAP (8), FCS (4): 9.2.4, 9.3.2.1.
const DATA_OVERHEAD: usize = 38;
/// MPDU delimiter, 9.7.1; each subframe but the last is padded to a multiple of it.
const DELIMITER: usize = 4;
/// A compressed BlockAck: frame control, duration, two addresses, control, start, bitmap, FCS
/// (9.3.1.9).
const BLOCK_ACK_BYTES: usize = 32;

/// aPSDUMaxLength and aPPDUMaxTime (mixed format), table 19-25.
pub(crate) const LARGEST_PSDU: u32 = 65_535;
pub(crate) const LONGEST_PPDU_MS: f64 = 5.484;

/// How a station and the access point send data to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mode {
    bits_per_symbol: u64,
    training_fields: u64,
    short_guard: bool,
    /// Rate of the answer to such a frame, Mbit/s.
    answer_mbit: u32,
}

impl Mode {
    /// `mcs` is at most [`HIGHEST_MCS`].
    pub fn new(mcs: u32, short_guard: bool, wide: bool) -> Mode {
        let streams = u64::from(mcs / 8 + 1);
        let (coded, data, of) = MODULATIONS[mcs as usize % 8];
        let subcarriers = if wide { SUBCARRIERS_40 } else { SUBCARRIERS_20 };
        Mode {
            bits_per_symbol: streams * subcarriers * coded * data / of,
            // Table 19-13: three streams need four.
            training_fields: if streams == 3 { 4 } else { streams },
            short_guard,
            // The highest basic rate not above the non-HT reference rate, 10.7.6.5.3, table 10-9.
            answer_mbit: match mcs % 8 {
                0 => 6,
                1 | 2 => 12,
                _ => 24,
            },
        }
    }

    /// TXTIME (19.4.3) of a PSDU of so many bytes, with the signal extension of 2.4 GHz.
    pub fn ppdu(self, bytes: usize) -> Nanos {
        let encoders = if self.bits_per_symbol > MOST_BITS_OF_ENCODER { 2 } else { 1 };
        let bits = 8 * bytes as u64 + SERVICE_BITS + TAIL_BITS * encoders;
        let symbols = bits.div_ceil(self.bits_per_symbol);
        let data = match self.short_guard {
            false => symbols * SYMBOL,
            // Ends with a whole symbol of the long guard interval, as other stations compute it.
            true => (symbols * SHORT_SYMBOL).next_multiple_of(SYMBOL),
        };
        PREAMBLE + LONG_TRAINING * self.training_fields + data + phy::SIGNAL_EXTENSION
    }

    /// SIFS and the answer: an ACK to a frame alone, a BlockAck to an A-MPDU.
    pub fn answer(self, packets: usize) -> Nanos {
        let bytes = if packets > 1 { BLOCK_ACK_BYTES } else { phy::CONTROL_BYTES };
        phy::SIFS + phy::frame(bytes, self.answer_mbit)
    }
}

/// How much one A-MPDU holds at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub packets: usize,
    pub bytes: usize,
    /// With its preamble.
    pub lasts: Nanos,
}

impl Limits {
    /// How many of these packets, given by their bytes from the IP header on, go into the next
    /// PPDU, and how long it takes. One goes alone, as a plain frame, however long it takes.
    pub fn fill(&self, mode: Mode, sizes: impl Iterator<Item = usize>) -> (usize, Nanos) {
        let (mut packets, mut bytes, mut lasts) = (0, 0, 0);
        for size in sizes.take(self.packets) {
            let mpdu = size + DATA_OVERHEAD;
            let with = bytes + DELIMITER + mpdu;
            let takes = mode.ppdu(if packets == 0 { mpdu } else { with });
            if packets > 0 && (with > self.bytes || takes > self.lasts) {
                break;
            }
            (packets, bytes, lasts) = (packets + 1, with.next_multiple_of(DELIMITER), takes);
        }
        (packets, lasts)
    }
}

#[cfg(test)]
mod tests {
    use super::{LARGEST_PSDU, Limits, Mode};

    const LIMITS: Limits = Limits { packets: 64, bytes: LARGEST_PSDU as usize, lasts: 5_484_000 };

    #[test]
    fn rates_are_those_of_the_standards_tables() {
        // Tables 19-27, 19-28 and 19-35: data bits per symbol.
        let bits = |mcs, wide| Mode::new(mcs, false, wide).bits_per_symbol;
        let narrow: Vec<u64> = (0..8).map(|mcs| bits(mcs, false)).collect();
        assert_eq!(narrow, [26, 52, 78, 104, 156, 208, 234, 260]);
        let wide: Vec<u64> = (0..8).map(|mcs| bits(mcs, true)).collect();
        assert_eq!(wide, [54, 108, 162, 216, 324, 432, 486, 540]);
        assert_eq!((bits(15, false), bits(31, true)), (520, 2160));
    }

    #[test]
    fn a_full_frame_alone_at_mcs_7_takes_48_symbols() {
        // 1500 + 38 bytes and 22 bits, 260 bits a symbol.
        assert_eq!(Mode::new(7, false, false).ppdu(1538), 36_000 + 48 * 4_000 + 6_000);
    }

    #[test]
    fn the_short_guard_interval_shortens_symbols_and_rounds_up_to_a_long_one() {
        // 48 · 3.6 = 172.8 µs.
        assert_eq!(Mode::new(7, true, false).ppdu(1538), 36_000 + 176_000 + 6_000);
    }

    #[test]
    fn each_stream_has_its_training_field_and_three_have_four() {
        let preamble = |mcs| Mode::new(mcs, false, false).ppdu(0) - 4_000 - 6_000;
        assert_eq!([7, 15, 23, 31].map(preamble), [36_000, 40_000, 48_000, 48_000]);
    }

    #[test]
    fn answers_go_at_the_basic_rate_of_the_modulation() {
        let answer = |mcs, packets| Mode::new(mcs, false, false).answer(packets);
        assert_eq!(answer(7, 1), 10_000 + 34_000, "an ACK, 24 Mbit/s: 2 symbols");
        assert_eq!(answer(15, 2), 10_000 + 38_000, "a BlockAck, 24 Mbit/s: 3 symbols");
        assert_eq!(answer(2, 2), 10_000 + 50_000, "12 Mbit/s: 6 symbols");
        assert_eq!(answer(0, 2), 10_000 + 74_000, "6 Mbit/s: 12 symbols");
    }

    #[test]
    fn an_a_mpdu_ends_at_the_first_limit_it_meets() {
        let full = || std::iter::repeat(1500);
        let packets = |mcs, limits: Limits| limits.fill(Mode::new(mcs, false, false), full()).0;
        // 1360 symbols in 5.442 ms, less preamble and extension; subframes of 1544 bytes.
        assert_eq!(packets(0, LIMITS), 2);
        assert_eq!(packets(7, LIMITS), 28);
        assert_eq!(packets(15, LIMITS), 42, "65,535 bytes");
        assert_eq!(
            packets(15, Limits { bytes: 1544 + 1542, ..LIMITS }),
            2,
            "no pad after the last"
        );
        assert_eq!(packets(15, Limits { bytes: 1544 + 1541, ..LIMITS }), 1);
        assert_eq!(packets(15, Limits { packets: 9, ..LIMITS }), 9);
        assert_eq!(packets(0, Limits { lasts: 1, ..LIMITS }), 1, "one always goes");
        let small = LIMITS.fill(Mode::new(7, false, false), std::iter::repeat(40)).0;
        assert_eq!(small, 64);
    }
}
