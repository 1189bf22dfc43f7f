//! How long things take on 802.11g's air (ERP-OFDM, IEEE 802.11-2012 clause 19,
//! with the OFDM PHY of clause 18 beneath it), ns.

use crate::packet::Nanos;

/// The rates of clause 18 at 20 MHz, Mbit/s.
pub(crate) const RATES_MBIT: [u32; 8] = [6, 9, 12, 18, 24, 36, 48, 54];

/// aSIFSTime, table 19-8.
pub(crate) const SIFS: Nanos = 10_000;

/// aSlotTime, table 19-8: short, and long where 802.11b stations must be heard.
pub(crate) const SHORT_SLOT: Nanos = 9_000;
pub(crate) const LONG_SLOT: Nanos = 20_000;

/// aCWmin (where all rates are ERP-OFDM) and aCWmax, tables 19-8 and 18-17.
pub(crate) const LEAST_WINDOW: u32 = 15;
pub(crate) const LARGEST_WINDOW: u32 = 1023;

/// PLCP preamble (16 µs) and SIGNAL (4 µs), 18.3.2 and 18.3.3.
const PREAMBLE: Nanos = 20_000;
/// TSYM, table 18-5.
const SYMBOL: Nanos = 4_000;
/// Silence after each ERP-OFDM frame that lets slower decoders finish, 19.8.3.
pub(crate) const SIGNAL_EXTENSION: Nanos = 6_000;

/// SERVICE and tail bits around the PSDU, 18.3.2.
const SERVICE_AND_TAIL_BITS: u64 = 16 + 6;

/// MAC header of a data frame without QoS (24), LLC and SNAP (8), FCS (4): 8.2.3, RFC 1042.
const DATA_OVERHEAD: usize = 36;
/// A CTS or an ACK: frame control, duration, address, FCS (8.3.1.3, 8.3.1.4).
pub(crate) const CONTROL_BYTES: usize = 14;

/// DIFS (9.3.2.3.5, 9.3.7).
pub(crate) fn difs(slot: Nanos) -> Nanos {
    SIFS + 2 * slot
}

/// PIFS (9.3.2.3.4, 9.3.7): the gap before those that need not contend.
pub(crate) fn pifs(slot: Nanos) -> Nanos {
    SIFS + slot
}

/// AIFS of the access category best effort, AIFSN 3 (IEEE 802.11-2016, 10.3.2.3.6, table 9-137).
pub(crate) fn aifs(slot: Nanos) -> Nanos {
    SIFS + 3 * slot
}

/// TXTIME (18.4.3, 19.8.3) of `bytes` from the MAC header to the FCS.
pub(crate) fn frame(bytes: usize, rate_mbit: u32) -> Nanos {
    let bits_per_symbol = u64::from(rate_mbit) * 4;
    let symbols = (SERVICE_AND_TAIL_BITS + 8 * bytes as u64).div_ceil(bits_per_symbol);
    PREAMBLE + SYMBOL * symbols + SIGNAL_EXTENSION
}

/// A data frame that carries `ip_bytes`.
pub(crate) fn data(ip_bytes: usize, rate_mbit: u32) -> Nanos {
    frame(ip_bytes + DATA_OVERHEAD, rate_mbit)
}

/// The ACK of a data frame: at the highest of the mandatory rates 6, 12 and 24 that is not above
/// the frame's (9.7.6.5.2).
pub(crate) fn ack(rate_mbit: u32) -> Nanos {
    frame(CONTROL_BYTES, basic_rate(rate_mbit))
}

/// A CTS to oneself in a form that 802.11b stations decode (9.23.2): 11 Mbit/s CCK after a long
/// preamble and header of 192 µs (clause 17).
pub(crate) fn cts_to_self() -> Nanos {
    192_000 + (CONTROL_BYTES as u64 * 8 * 1_000).div_ceil(11)
}

fn basic_rate(rate_mbit: u32) -> u32 {
    match rate_mbit {
        ..12 => 6,
        12..24 => 12,
        24.. => 24,
    }
}

/// Group frames go out at the lowest mandatory rate, so that everybody decodes them (9.7.5.3).
pub(crate) const GROUP_RATE_MBIT: u32 = 6;

#[cfg(test)]
mod tests {
    use super::{SHORT_SLOT, ack, cts_to_self, data, difs};

    #[test]
    fn a_full_data_frame_at_54_mbit_takes_57_symbols() {
        // 1500 + 36 bytes and 22 bits, 216 bits a symbol.
        assert_eq!(data(1500, 54), 20_000 + 57 * 4_000 + 6_000);
    }

    #[test]
    fn an_ack_goes_at_the_mandatory_rate_below_the_datas() {
        assert_eq!(ack(54), 34_000, "24 Mbit/s: 2 symbols");
        assert_eq!(ack(18), 38_000, "12 Mbit/s: 3 symbols");
        assert_eq!(ack(9), 50_000, "6 Mbit/s: 6 symbols");
    }

    #[test]
    fn spaces_between_frames_are_those_of_the_erp() {
        assert_eq!(difs(SHORT_SLOT), 28_000);
        assert_eq!(cts_to_self(), 202_182);
    }
}
