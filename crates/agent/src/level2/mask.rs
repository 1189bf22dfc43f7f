//! Addresses in traces are what they are in rows: the prefix of a network, unless the configuration
//! asks for all of them. Both ends mask alike, so that the two traces of a connection still fit.

use bytemuck::cast_mut;
use transom_event::{BodyKind, Kind, Open, Raw};

/// Bytes of the prefix: /24 and /48, as in rows.
const OF_IPV4: usize = 3;
const OF_IPV6: usize = 6;

pub fn mask(raw: &mut Raw) {
    if Kind::from_number(raw.head.kind.into()).map(Kind::body) != Some(BodyKind::Open) {
        return;
    }
    let open: &mut Open = cast_mut(&mut raw.body);
    let kept = if i32::from(open.family) == libc::AF_INET6 { OF_IPV6 } else { OF_IPV4 };
    open.local_addr[kept..].fill(0);
    open.remote_addr[kept..].fill(0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;

    fn masked(kind: Kind, open: Open) -> Raw {
        let mut raw = Raw { body: bytemuck::cast(open), ..Raw::zeroed() };
        raw.head.kind = kind as u8;
        mask(&mut raw);
        raw
    }

    #[test]
    fn of_an_address_the_prefix_stays() {
        let open = Open { local_addr: [10; 16], remote_addr: [11; 16], ..Open::zeroed() };
        for kind in [Kind::Open, Kind::Owner, Kind::Algorithm] {
            let v4 = masked(kind, Open { family: libc::AF_INET as u16, ..open });
            assert_eq!(v4.open().endpoints().to_string(), "10.10.10.0:0 > 11.11.11.0:0");
            let v6 = masked(kind, Open { family: libc::AF_INET6 as u16, ..open });
            assert_eq!(v6.open().endpoints().to_string(), "[a0a:a0a:a0a::]:0 > [b0b:b0b:b0b::]:0");
        }
    }

    #[test]
    fn other_events_have_no_address_and_stay_as_they_are() {
        let body = Open { remote_addr: [11; 16], ..Open::zeroed() };
        assert_eq!(masked(Kind::Ack, body).open(), &body);
    }
}
