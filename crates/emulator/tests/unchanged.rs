//! Plans without the later elements give what they gave before those existed: results that were
//! published with them stay reproducible.

use transom_emulator::plan::{
    Access, Air, Direction, Fading, Path, Plan, Port, Processor, Receive, SendingQueue, Side,
    Station,
};
use transom_emulator::{Frame, Nanos, Network};

fn mac(port: usize) -> [u8; 6] {
    [2, 0, 0, 0, 0, port as u8]
}

/// FNV-1a of the time, port and number of everything that reaches a host in 20 s, when each host
/// sends to each other one and to all.
fn digest(access: Access) -> u64 {
    let fading = Fading { every_ms: 300.0, lasts_ms: 40.0, errors_up: 0.7, errors_down: 0.9 };
    let station = Station {
        queue_packets: 20,
        frame_errors_up: 0.05,
        frame_errors_down: 0.1,
        fading: Some(fading),
        ..Station::default()
    };
    let phone = Station {
        phy_mbit: 24,
        sending_queue: Some(SendingQueue { packets: 32, rate_mbit: Some(8.5) }),
        processor: Some(Processor { send_us: 100.0, transfer_us: 200.0, receive_us: 150.0 }),
        ..Station::default()
    };
    let slow = Station {
        receive: Some(Receive { rate_mbit: 4.0, queue_packets: 10 }),
        ..Station::default()
    };
    let own = Path {
        rtt_ms: 60.0,
        up: Direction { rate_mbit: Some(3.0), queue_packets: Some(20), ..Direction::default() },
        down: Direction { loss: 0.01, loss_burst: Some(3.0), ..Direction::default() },
    };
    let path = Path {
        rtt_ms: 16.0,
        up: Direction {
            rate_mbit: Some(20.0),
            queue_bytes: Some(60_000),
            loss: 0.005,
            duplicate: 0.01,
            reorder: 0.02,
            reorder_ms: 3.0,
            ..Direction::default()
        },
        down: Direction {
            delay_ms: 4.0,
            police_mbit: Some(9.0),
            police_burst_bytes: Some(30_000),
            rate_mbit: Some(10.0),
            ..Direction::default()
        },
    };
    let sides = [
        Side::Air(station.clone()),
        Side::Air(station),
        Side::Air(phone),
        Side::Air(slow),
        Side::Near,
        Side::Far,
        Side::Far,
        Side::Cellular(own),
    ];
    let ports = sides.into_iter().enumerate().map(|(index, side)| Port {
        name: format!("h{index}"),
        mac: mac(index),
        side,
    });
    let air = Some(Air { access, cts_to_self: true, retry_limit: Some(5), ..Air::default() });
    let plan = Plan { seed: 12, air, path, ports: ports.collect(), ..Plan::default() };
    let mut network = Network::new(&plan).expect("a valid plan");
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut out = Vec::new();
    for number in 0..20_000_u64 {
        let now: Nanos = number * 1_000_000;
        network.advance(now, &mut out);
        let (from, to) = ((number * 5 % 8) as usize, (number / 8 % 9) as usize);
        let mut bytes = vec![0; 60 + (number * 7_919 % 1_440) as usize];
        bytes[..6].copy_from_slice(if to == 8 { &[0xff; 6] } else { &[0; 6] });
        if to < 8 {
            bytes[..6].copy_from_slice(&mac(to));
        }
        bytes[20..28].copy_from_slice(&number.to_be_bytes());
        network.arrive(now, from, Frame::new(bytes));
        for delivery in out.drain(..) {
            let words = [delivery.at, delivery.port as u64];
            let number = &delivery.frame.bytes()[20..28];
            for byte in words.iter().flat_map(|word| word.to_be_bytes()).chain(number.to_vec()) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }
    assert!(network.totals().delivered > 10_000, "{:?}", network.totals());
    hash
}

#[test]
fn old_plans_give_the_same_deliveries_to_the_nanosecond() {
    assert_eq!(digest(Access::Dcf), 10_689_829_298_582_839_343);
    assert_eq!(digest(Access::RoundRobin), 1_354_775_469_480_591_235);
}
