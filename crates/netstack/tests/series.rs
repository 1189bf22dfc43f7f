//! Kernels of two series in one process, and TCP between them.

mod bed;

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bed::{alone, connect, listener, receive, send};
use transom_netstack::{
    FakeClock, Kernel, Link, Nic, NicParameters, Parameters, Series, SocketId, Transmitted,
    VnetHeader,
};

const TOTAL: u64 = 1_000_000;
const STEP: Duration = Duration::from_millis(1);

/// Whether this program is linked with 6.1; if not, the test is noted as skipped.
fn has_6_1() -> bool {
    let built = Series::Linux61.is_built();
    if !built {
        transom_testbed::skip("liblinux-6.1", "liblinux-6.1.a was not built: make linux");
    }
    built
}

/// Frames on their way in one direction.
type Wire = Arc<Mutex<VecDeque<Vec<u8>>>>;

/// One end of a cable: frames are bytes, and every `loss`th of those that leave is lost.
struct Plug {
    out: Wire,
    into: Wire,
    loss: u64,
    sent: u64,
}

impl Nic for Plug {
    fn transmit(&mut self, _offload: VnetHeader, parts: &[IoSlice<'_>]) -> Transmitted {
        self.sent += 1;
        if !self.sent.is_multiple_of(self.loss) {
            self.out
                .lock()
                .unwrap()
                .push_back(parts.iter().flat_map(|part| part.iter().copied()).collect());
        }
        Transmitted::Taken
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Option<(usize, VnetHeader)> {
        let frame = self.into.lock().unwrap().pop_front()?;
        buffer[..frame.len()].copy_from_slice(&frame);
        Some((frame.len(), VnetHeader::default()))
    }

    fn descriptor(&self) -> Option<RawFd> {
        None
    }
}

/// A kernel of this series with the address 10.0.0.`host` at its end of the cable.
fn boot(series: Series, host: u8, clock: &FakeClock, plug: Plug) -> Kernel {
    let parameters = Parameters {
        series,
        seed: [host; 32],
        clock: Box::new(clock.clone()),
        ..bed::parameters()
    };
    let mut kernel = Kernel::boot(parameters).unwrap();
    let nic = NicParameters {
        name: "eth0".to_owned(),
        link: Link::Ethernet { mac: [2, 0, 0, 0, 0, host] },
        mtu: 1500,
        checksum: false,
        tso: false,
        uso: false,
        queue: None,
    };
    let nic = kernel.add_nic(&nic, Box::new(plug)).unwrap();
    kernel.set_up(nic, true).unwrap();
    kernel.add_address(nic, [10, 0, 0, host].into(), 24).unwrap();
    kernel
}

/// A host of 6.12 and one of 6.1, with a cable that loses every `loss`th frame of each direction.
fn hosts(loss: u64, clock: &FakeClock) -> (Kernel, Kernel) {
    let (there, back) = (Wire::default(), Wire::default());
    let plug =
        |out: &Wire, into: &Wire| Plug { out: out.clone(), into: into.clone(), loss, sent: 0 };
    let new = boot(Series::Linux612, 1, clock, plug(&there, &back));
    let old = boot(Series::Linux61, 2, clock, plug(&back, &there));
    (new, old)
}

/// The half of a transfer that one end does in a millisecond.
struct End {
    socket: SocketId,
    sent: u64,
    received: u64,
}

impl End {
    fn new(socket: SocketId) -> End {
        End { socket, sent: 0, received: 0 }
    }

    /// Sends what fits, up to `total`, and compares what has come.
    fn work(&mut self, kernel: &mut Kernel, total: u64) {
        let mut buffer = vec![0; 1 << 16];
        let size = buffer.len().min((total - self.sent) as usize);
        bed::pattern(self.sent, &mut buffer[..size]);
        self.sent += send(kernel, self.socket, &buffer[..size]).unwrap_or(0) as u64;
        while let Ok(n) = receive(kernel, self.socket, &mut buffer)
            && n > 0
        {
            bed::assert_pattern(self.received, &buffer[..n]);
            self.received += n as u64;
        }
    }
}

/// `Tcp:` of `/proc/net/snmp`: segments that were retransmitted.
fn retransmitted(kernel: &mut Kernel) -> u64 {
    let text = kernel.read_proc("net/snmp").unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with("Tcp:"));
    let names = lines.next().unwrap().split(' ');
    let values = lines.next().unwrap().split(' ');
    let (_, value) = names.zip(values).find(|(name, _)| *name == "RetransSegs").unwrap();
    value.parse().unwrap()
}

/// A megabyte each way, at once, from a client of one kernel to a server of the other.
fn exchange(client: &mut Kernel, server: &mut Kernel, address: &str, clock: &FakeClock) {
    let address = address.parse().unwrap();
    let listener = listener(server, address, 0);
    let mut near = End::new(connect(client, address, 0));
    let mut far: Option<End> = None;
    for _ in 0..60_000 {
        clock.advance(STEP);
        for kernel in [&mut *client, &mut *server] {
            kernel.turn(&mut Vec::new());
        }
        far = far.or_else(|| server.accept(listener).ok().map(End::new));
        near.work(client, TOTAL);
        let Some(far) = &mut far else { continue };
        far.work(server, TOTAL);
        if (near.received, far.received) == (TOTAL, TOTAL) {
            return;
        }
    }
    let received = far.map(|far| far.received);
    panic!(
        "after a minute {} of {TOTAL} bytes at the client, {received:?} at the server",
        near.received
    );
}

#[test]
fn a_kernel_of_each_series_runs_beside_the_other() {
    if !has_6_1() {
        return;
    }
    let _alone = alone();
    let clock = FakeClock::new(bed::WALL);
    let (mut new, mut old) = hosts(u64::MAX, &clock);
    assert!(new.read_proc("version").unwrap().starts_with("Linux version 6.12."));
    assert!(old.read_proc("version").unwrap().starts_with("Linux version 6.1."));
    // Variables of one are not those of the other.
    new.set_sysctl("net.ipv4.ip_default_ttl", "33").unwrap();
    assert_eq!(old.sysctl("net.ipv4.ip_default_ttl").unwrap(), "64");
    for series in Series::ALL {
        let second = Kernel::boot(Parameters { series, ..bed::parameters() });
        assert_eq!(second.err().expect("one of a series").errno, libc::EBUSY, "{series}");
    }
    // The end of one is not the other's.
    drop(new);
    assert_eq!(old.sysctl("net.ipv4.ip_default_ttl").unwrap(), "64");
    drop(Kernel::boot(bed::parameters()).expect("6.12 can boot again"));
}

#[test]
fn tcp_runs_between_the_series_in_both_directions_over_a_path_that_loses() {
    if !has_6_1() {
        return;
    }
    let _alone = alone();
    for (control_new, control_old) in [("cubic", "cubic"), ("bbr", "steady"), ("steady", "bbr")] {
        let clock = FakeClock::new(bed::WALL);
        let (mut new, mut old) = hosts(50, &clock);
        new.set_sysctl("net.ipv4.tcp_congestion_control", control_new).unwrap();
        old.set_sysctl("net.ipv4.tcp_congestion_control", control_old).unwrap();
        exchange(&mut new, &mut old, "10.0.0.2:80", &clock);
        exchange(&mut old, &mut new, "10.0.0.1:80", &clock);
        for (kernel, control) in [(&mut new, control_new), (&mut old, control_old)] {
            // Two megabytes are at least 1400 segments, of which a fiftieth was lost.
            let count = retransmitted(kernel);
            assert!((20..400).contains(&count), "{count} retransmitted with {control}");
        }
    }
    bed::assert_no_complaints();
}

#[test]
fn a_series_is_known_by_its_number() {
    for series in Series::ALL {
        assert_eq!(series.name().parse::<Series>().unwrap(), series);
    }
    let error = "5.10".parse::<Series>().unwrap_err();
    assert!(error.to_string().contains("6.12 or 6.1"), "{error}");
}

#[test]
fn a_series_that_is_not_linked_is_refused_with_the_remedy() {
    if Series::Linux61.is_built() {
        return;
    }
    let parameters = Parameters { series: Series::Linux61, ..bed::parameters() };
    let error = Kernel::boot(parameters).err().expect("refused");
    assert!(error.to_string().contains("make linux"), "{error}");
}
