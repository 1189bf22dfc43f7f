//! The standard of an air, and the parameters that only 802.11n has.

use serde::{Deserialize, Serialize};

use super::problem::{Problem, Problems};
use super::{Air, DEFAULT_PHY_MBIT, Station};
use crate::ht;
use crate::packet::nanos_of_ms;

const MOST_PACKETS: u32 = 64;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standard {
    /// 802.11g: DCF, each frame alone with its ACK.
    #[default]
    G,
    /// 802.11n: EDCA (best effort), aggregation, block ACK.
    N,
}

impl Standard {
    pub(super) fn is_g(&self) -> bool {
        *self == Standard::G
    }
}

impl Air {
    /// Problems of the keys that only 802.11n has, as the table `at`.
    pub fn problems(&self, at: &str) -> Vec<Problem> {
        let mut problems = Problems::below(at);
        if self.standard == Standard::G {
            let given = [
                ("channel_mhz", self.channel_mhz.is_some()),
                ("ampdu_packets", self.ampdu_packets.is_some()),
                ("ampdu_bytes", self.ampdu_bytes.is_some()),
                ("ampdu_ms", self.ampdu_ms.is_some()),
            ];
            for (key, _) in given.iter().filter(|(_, is)| *is) {
                let remedy = format!("remove it, or set `{at}.standard = \"n\"`");
                problems.add(key, "means nothing for 802.11g", remedy);
            }
        }
        if let Some(mhz) = self.channel_mhz.filter(|mhz| ![20, 40].contains(mhz)) {
            problems.add("channel_mhz", format!("{mhz} is no width of 802.11n"), "give 20 or 40");
        }
        let number = |value: Option<u32>| value.map(f64::from);
        problems.within("ampdu_packets", number(self.ampdu_packets), 1.0, MOST_PACKETS.into(), "");
        let bytes = (number(self.ampdu_bytes), f64::from(ht::LARGEST_PSDU));
        problems.within("ampdu_bytes", bytes.0, 1.0, bytes.1, "bytes");
        problems.within("ampdu_ms", self.ampdu_ms, 0.001, ht::LONGEST_PPDU_MS, "ms");
        problems.found
    }

    pub(crate) fn is_wide(&self) -> bool {
        self.channel_mhz == Some(40)
    }

    pub(crate) fn ampdu_limits(&self) -> ht::Limits {
        ht::Limits {
            packets: self.ampdu_packets.unwrap_or(MOST_PACKETS) as usize,
            bytes: self.ampdu_bytes.unwrap_or(ht::LARGEST_PSDU) as usize,
            lasts: nanos_of_ms(self.ampdu_ms.unwrap_or(ht::LONGEST_PPDU_MS)),
        }
    }
}

impl Station {
    /// Problems of the keys that only stations of 802.11n have, as the table `at`.
    pub fn problems(&self, at: &str, air: &Air) -> Vec<Problem> {
        let mut problems = Problems::below(at);
        match self.mcs {
            None if self.short_gi.is_some() => {
                problems.add("short_gi", "means nothing without an MCS", "set `mcs`, or remove it");
            }
            None => {}
            Some(_) if air.standard == Standard::G => {
                let remedy = "set `air.standard = \"n\"`, or give `phy_mbit` instead";
                problems.add("mcs", "802.11g has no MCS", remedy);
            }
            Some(_) if self.phy_mbit != DEFAULT_PHY_MBIT => {
                let what = "is a rate, and so is `phy_mbit`, which is for stations of 802.11g";
                problems.add("mcs", what, "keep one of them");
            }
            Some(mcs) => {
                problems.within("mcs", Some(mcs.into()), 0.0, ht::HIGHEST_MCS.into(), "");
            }
        }
        problems.found
    }

    pub(crate) fn has_short_gi(&self) -> bool {
        self.short_gi == Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::{Air, Standard, Station};

    #[test]
    fn what_802_11n_cannot_do_is_refused_with_the_key_and_the_remedy() {
        let n = || Air { standard: Standard::N, ..Air::default() };
        for (air, says) in [
            (Air { ampdu_packets: Some(8), ..Air::default() }, "air.ampdu_packets: means nothing"),
            (Air { ampdu_ms: Some(1.0), ..Air::default() }, "or set `air.standard = \"n\"`"),
            (Air { channel_mhz: Some(30), ..n() }, "air.channel_mhz: 30 is no width"),
            (
                Air { ampdu_packets: Some(65), ..n() },
                "65 is impossible; give a number from 1 to 64",
            ),
            (Air { ampdu_bytes: Some(0), ..n() }, "air.ampdu_bytes: 0 is impossible"),
            (Air { ampdu_ms: Some(6.0), ..n() }, "from 0.001 to 5.484 ms"),
        ] {
            let problems = air.problems("air");
            assert_eq!(problems.len(), 1, "{problems:?}");
            let text = problems[0].to_string();
            assert!(text.contains(says), "{text:?} does not say {says:?}");
        }
        let full = Air { channel_mhz: Some(40), ampdu_packets: Some(64), ..n() };
        assert_eq!(full.problems("air"), []);
    }

    #[test]
    fn a_station_has_one_rate_and_its_air_must_know_it() {
        let (g, n) = (Air::default(), Air { standard: Standard::N, ..Air::default() });
        let station = Station { mcs: Some(7), short_gi: Some(true), ..Station::default() };
        assert_eq!(station.problems("station", &n), []);
        let says = |station: &Station, air: &Air| station.problems("station", air)[0].to_string();
        assert!(says(&station, &g).contains("station.mcs: 802.11g has no MCS; set `air.standard"));
        let both = Station { phy_mbit: 6, ..station.clone() };
        assert!(says(&both, &n).contains("keep one of them"));
        let high = Station { mcs: Some(32), ..station.clone() };
        assert!(says(&high, &n).contains("mcs: 32 is impossible; give a number from 0 to 31"));
        let lone = Station { mcs: None, ..station };
        assert!(says(&lone, &n).contains("short_gi: means nothing without an MCS"));
    }
}
