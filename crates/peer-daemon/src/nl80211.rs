//! The BSSID of the access point that a wireless interface belongs to, from the kernel's nl80211.
//!
//! Two questions of generic netlink: the family's number, and the stations of the interface; a
//! client's only station is its access point.

use transom_link::netlink::{GENERIC_HEADER, Message, Netlink, Request, family_number};

use crate::interface;

/// linux/nl80211.h
const NL80211_CMD_GET_STATION: u8 = 17;
const NL80211_ATTR_IFINDEX: u16 = 3;
const NL80211_ATTR_MAC: u16 = 6;

/// None when the interface is not wireless, not associated, or the kernel does not say.
pub fn bssid(interface: &str) -> Option<String> {
    let index = interface::number(interface)?;
    let mut netlink = Netlink::open_generic().ok()?;
    let family = family_number(&netlink.request(Request::family("nl80211")).ok()??)?;
    let stations = Request::generic(family, NL80211_CMD_GET_STATION, 0)
        .attribute(NL80211_ATTR_IFINDEX, &index.to_ne_bytes());
    hardware_address(netlink.dump(stations).ok()?.first()?)
}

fn hardware_address(station: &Message) -> Option<String> {
    let mut attributes = station.attributes(GENERIC_HEADER);
    let (_, bytes) = attributes.find(|&(kind, _)| kind == NL80211_ATTR_MAC)?;
    let six: [u8; 6] = bytes.try_into().ok()?;
    Some(interface::hardware_text(&six))
}

#[cfg(test)]
mod tests {
    use super::*;
    use transom_link::netlink::messages;

    fn station(mac: &[u8]) -> Message {
        let bytes = Request::generic(30, NL80211_CMD_GET_STATION, 0)
            .attribute(NL80211_ATTR_IFINDEX, &3u32.to_ne_bytes())
            .attribute(NL80211_ATTR_MAC, mac)
            .finish();
        messages(&bytes).remove(0).1
    }

    #[test]
    fn the_address_is_found_among_the_attributes_of_an_answer() {
        let found = hardware_address(&station(&[2, 0, 0, 0xab, 0, 1]));
        assert_eq!(found.as_deref(), Some("02:00:00:ab:00:01"));
        assert_eq!(hardware_address(&station(&[1, 2, 3])), None);
    }

    #[test]
    fn an_interface_that_is_not_wireless_has_no_bssid() {
        assert_eq!(bssid("lo"), None);
    }
}
