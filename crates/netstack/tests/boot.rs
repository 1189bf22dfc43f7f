//! Booting, the clock, files, and TCP within the library.

mod bed;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bed::{alone, boot, boot_at, connect, error_of, listener, receive, send};
use transom_netstack::{FakeClock, Kernel, Series};
use transom_testbed::SourceFilter;

const LOOPBACK: &str = "127.0.0.1:4000";

/// A connection over the loopback interface: client, server.
fn pair(
    kernel: &mut Kernel,
    address: &str,
) -> (transom_netstack::SocketId, transom_netstack::SocketId) {
    let address = address.parse().unwrap();
    let listener = listener(kernel, address, 0);
    let client = connect(kernel, address, 0);
    kernel.turn(&mut Vec::new());
    let server = kernel.accept(listener).expect("a connection waits");
    assert_eq!(error_of(kernel, client), 0);
    kernel.close(listener);
    (client, server)
}

/// Sends so many bytes from one end to the other and compares them.
fn carry(
    kernel: &mut Kernel,
    from: transom_netstack::SocketId,
    to: transom_netstack::SocketId,
    total: u64,
) {
    let mut data = vec![0; 1 << 16];
    let mut got = vec![0; 1 << 16];
    let (mut sent, mut received) = (0, 0);
    let mut idle = 0;
    while received < total {
        let size = data.len().min((total - sent) as usize);
        bed::pattern(sent, &mut data[..size]);
        match send(kernel, from, &data[..size]) {
            Ok(n) => sent += n as u64,
            Err(error) => assert!(error.would_block(), "{error}"),
        }
        kernel.turn(&mut Vec::new());
        while let Ok(n) = receive(kernel, to, &mut got) {
            if n == 0 {
                break;
            }
            bed::assert_pattern(received, &got[..n]);
            received += n as u64;
            idle = 0;
        }
        idle += 1;
        assert!(idle < 100_000, "stuck at {received} of {sent} bytes");
    }
}

#[test]
fn a_kernel_boots_and_tells_its_version() {
    let _alone = alone();
    let mut kernel = boot();
    let version = kernel.read_proc("version").unwrap();
    let series = format!("Linux version {}.", bed::series());
    assert!(version.starts_with(&series), "{version}");
    assert!(version.contains("transom"), "{version}");
}

#[test]
fn the_kernel_has_nothing_to_complain_of() {
    let _alone = alone();
    let log = Arc::<Mutex<String>>::default();
    let lines = log.clone();
    let mut parameters = bed::parameters();
    parameters.command_line = "loglevel=8".to_owned();
    parameters.clock = Box::new(FakeClock::new(bed::WALL));
    parameters.console = Box::new(move |text| lines.lock().unwrap().push_str(text));
    let mut kernel = Kernel::boot(parameters).unwrap();
    kernel.set_loopback_up().unwrap();
    let (client, server) = pair(&mut kernel, LOOPBACK);
    carry(&mut kernel, client, server, 1_000_000);
    drop(kernel);
    let log = log.lock().unwrap();
    assert!(log.contains("Linux version"), "{log}");
    for word in ["WARNING", "BUG", "cut here", "Call Trace", "error", "fail"] {
        assert!(!log.contains(word), "{word} in the log:\n{log}");
    }
}

#[test]
fn many_kernels_one_after_the_other_in_one_process() {
    let _alone = alone();
    for turn in 0..20 {
        let mut kernel = boot();
        let (client, server) = pair(&mut kernel, LOOPBACK);
        carry(&mut kernel, client, server, 100_000);
        assert_eq!(kernel.sysctl("net.ipv4.ip_default_ttl").unwrap(), "64", "boot {turn}");
        // The next one must not find it.
        kernel.set_sysctl("net.ipv4.ip_default_ttl", "33").unwrap();
    }
}

#[test]
fn a_kernel_that_ended_leaves_nothing_in_the_process() {
    /// Pages of address space and pages in memory: proc_pid_statm(5).
    fn pages() -> (u64, u64) {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        let mut numbers = text.split(' ').map(|number| number.parse().unwrap());
        (numbers.next().unwrap(), numbers.next().unwrap())
    }

    fn life() {
        let mut kernel = boot();
        let (client, server) = pair(&mut kernel, LOOPBACK);
        carry(&mut kernel, client, server, 1_000_000);
    }

    let _alone = alone();
    life();
    let before = pages();
    for _ in 0..30 {
        life();
    }
    let after = pages();
    // A kernel has 65,536 pages, of which it touches thousands.
    assert!(after.0 < before.0 + 1000, "address space: {before:?}, {after:?}");
    assert!(after.1 < before.1 + 500, "memory: {before:?}, {after:?}");
}

#[test]
fn a_second_kernel_beside_the_first_is_refused() {
    let _alone = alone();
    let kernel = boot();
    let error = Kernel::boot(bed::parameters()).err().expect("refused");
    assert_eq!(error.errno, libc::EBUSY);
    drop(kernel);
    boot();
}

#[test]
fn too_little_memory_is_refused() {
    let _alone = alone();
    let mut parameters = bed::parameters();
    parameters.memory = 8 << 20;
    let error = Kernel::boot(parameters).err().expect("refused");
    assert_eq!(error.errno, libc::ENOMEM);
}

#[test]
fn memory_that_ends_is_an_error_and_what_is_given_back_can_be_used() {
    let _alone = alone();
    let mut parameters = bed::parameters();
    parameters.memory = 16 << 20;
    parameters.command_line = "loglevel=0".to_owned();
    let mut kernel = Kernel::boot(parameters).unwrap();
    kernel.set_loopback_up().unwrap();
    for _ in 0..3 {
        let mut sockets = Vec::new();
        let error = loop {
            match kernel.socket(libc::AF_INET, libc::SOCK_STREAM, 0) {
                Ok(socket) => sockets.push(socket),
                Err(error) => break error,
            }
        };
        assert!(matches!(error.errno, libc::ENOMEM | libc::ENFILE | libc::ENOBUFS), "{error}");
        assert!(sockets.len() > 500, "only {} sockets in 16 MiB", sockets.len());
        for socket in sockets {
            kernel.close(socket);
        }
        kernel.turn(&mut Vec::new());
        let (client, server) = pair(&mut kernel, LOOPBACK);
        carry(&mut kernel, client, server, 1_000_000);
        kernel.close(client);
        kernel.close(server);
        kernel.turn(&mut Vec::new());
    }
}

#[test]
fn a_hundred_megabytes_over_the_loopback_arrive_as_sent() {
    let _alone = alone();
    let mut kernel = boot();
    let (client, server) = pair(&mut kernel, LOOPBACK);
    carry(&mut kernel, client, server, 100_000_000);
    let (client, server) = pair(&mut kernel, "[::1]:4001");
    carry(&mut kernel, server, client, 10_000_000);
}

#[test]
fn the_end_of_a_stream_is_seen_and_what_follows_a_reset_is_an_error() {
    let _alone = alone();
    let mut kernel = boot();
    let (client, server) = pair(&mut kernel, LOOPBACK);
    send(&mut kernel, client, b"last words").unwrap();
    kernel.shutdown(client, libc::SHUT_WR).unwrap();
    kernel.turn(&mut Vec::new());
    let mut got = [0; 64];
    assert_eq!(receive(&mut kernel, server, &mut got).unwrap(), 10);
    assert_eq!(receive(&mut kernel, server, &mut got).unwrap(), 0);
    // The other direction lives on.
    send(&mut kernel, server, b"an answer").unwrap();
    kernel.turn(&mut Vec::new());
    assert_eq!(receive(&mut kernel, client, &mut got).unwrap(), 9);

    let linger = [1i32.to_ne_bytes(), 0i32.to_ne_bytes()].concat();
    kernel.setsockopt(server, libc::SOL_SOCKET, libc::SO_LINGER, &linger).unwrap();
    kernel.close(server);
    kernel.turn(&mut Vec::new());
    assert_eq!(receive(&mut kernel, client, &mut got).unwrap_err().errno, libc::ECONNRESET);
}

#[test]
fn nobody_listens_is_connection_refused() {
    let _alone = alone();
    let mut kernel = boot();
    let client = connect(&mut kernel, LOOPBACK.parse().unwrap(), 0);
    kernel.turn(&mut Vec::new());
    assert_eq!(error_of(&mut kernel, client), libc::ECONNREFUSED);
}

#[test]
fn a_socket_that_became_ready_is_named_by_the_turn() {
    let _alone = alone();
    let mut kernel = boot();
    let (client, server) = pair(&mut kernel, LOOPBACK);
    let mut ready = Vec::new();
    kernel.turn(&mut ready);
    ready.clear();
    kernel.turn(&mut ready);
    assert_eq!(ready, [], "nothing happened");
    send(&mut kernel, client, b"x").unwrap();
    kernel.turn(&mut ready);
    assert!(ready.contains(&server), "{ready:?}");
    assert_ne!(kernel.poll(server) & libc::EPOLLIN as u32, 0);
}

#[test]
fn what_came_before_the_accept_is_told_after_it() {
    let _alone = alone();
    let mut kernel = boot();
    let address = LOOPBACK.parse().unwrap();
    let listener = listener(&mut kernel, address, 0);
    let client = connect(&mut kernel, address, 0);
    kernel.turn(&mut Vec::new());
    send(&mut kernel, client, b"early").unwrap();
    kernel.turn(&mut Vec::new());
    let server = kernel.accept(listener).unwrap();
    let mut ready = Vec::new();
    kernel.turn(&mut ready);
    assert!(ready.contains(&server), "{ready:?}");
    assert_eq!(receive(&mut kernel, server, &mut [0; 10]).unwrap(), 5);
}

#[test]
fn a_call_that_would_block_says_so() {
    let _alone = alone();
    let mut kernel = boot();
    let (client, _server) = pair(&mut kernel, LOOPBACK);
    let error = receive(&mut kernel, client, &mut [0; 10]).unwrap_err();
    assert_eq!(error.errno, libc::EAGAIN);
    let listener = listener(&mut kernel, "127.0.0.1:4002".parse().unwrap(), 0);
    assert_eq!(kernel.accept(listener).unwrap_err().errno, libc::EAGAIN);
}

#[test]
fn a_closed_socket_is_a_bad_one() {
    let _alone = alone();
    let mut kernel = boot();
    let (client, _server) = pair(&mut kernel, LOOPBACK);
    kernel.close(client);
    assert_eq!(send(&mut kernel, client, b"x").unwrap_err().errno, libc::EBADF);
    // Its place is taken by another one, which is not it.
    let other = kernel.socket(libc::AF_INET, libc::SOCK_STREAM, 0).unwrap();
    assert_ne!(other, client);
    assert_eq!(send(&mut kernel, client, b"x").unwrap_err().errno, libc::EBADF);
}

#[test]
fn time_is_the_given_clock_and_timers_fire_when_it_says() {
    let _alone = alone();
    let clock = FakeClock::new(bed::WALL);
    let mut kernel = boot_at(&clock);
    // Nobody answers there: SYNs are sent again after 1, 2, 4, … s (RFC 6298), 2 of them here.
    kernel.set_sysctl("net.ipv4.tcp_syn_retries", "2").unwrap();
    // New in 6.5, with another default.
    match kernel.set_sysctl("net.ipv4.tcp_syn_linear_timeouts", "0") {
        Err(error) if bed::series() == Series::Linux61 => assert_eq!(error.errno, libc::ENOENT),
        result => result.unwrap(),
    }
    let syns = |kernel: &mut Kernel| {
        let text = kernel.read_proc("net/snmp").unwrap();
        let line = text.lines().filter(|line| line.starts_with("Tcp:")).nth(1).unwrap();
        line.split(' ').nth(12).unwrap().parse::<u32>().unwrap()
    };
    let socket = kernel.socket(libc::AF_INET, libc::SOCK_STREAM, 0).unwrap();
    let listener = listener(&mut kernel, LOOPBACK.parse().unwrap(), 0);
    // A full backlog is silent.
    kernel.listen(listener, 0).unwrap();
    let fillers: Vec<_> =
        (0..3).map(|_| connect(&mut kernel, LOOPBACK.parse().unwrap(), 0)).collect();
    kernel.turn(&mut Vec::new());
    let before = syns(&mut kernel);
    let error = kernel.connect(socket, &bed::raw(LOOPBACK.parse().unwrap())).unwrap_err();
    assert_eq!(error.errno, libc::EINPROGRESS);
    kernel.turn(&mut Vec::new());
    assert_eq!(syns(&mut kernel), before);
    clock.advance(Duration::from_millis(900));
    kernel.turn(&mut Vec::new());
    assert_eq!(syns(&mut kernel), before, "too early");
    clock.advance(Duration::from_millis(200));
    kernel.turn(&mut Vec::new());
    assert!(syns(&mut kernel) > before, "a second has passed");
    for _ in 0..100 {
        clock.advance(Duration::from_millis(100));
        kernel.turn(&mut Vec::new());
    }
    assert_eq!(error_of(&mut kernel, socket), libc::ETIMEDOUT);
    drop(fillers);
}

#[test]
fn the_table_of_many_sockets_is_read_to_its_end() {
    const NUMBER: u16 = 8_000;
    let _alone = alone();
    let mut kernel = boot();
    for port in 10_000..10_000 + NUMBER {
        listener(&mut kernel, ([127, 0, 0, 1], port).into(), 0);
    }
    let table = kernel.read_proc("net/tcp").unwrap();
    assert!(table.len() > 1 << 20 && table.ends_with('\n'), "{} bytes", table.len());
    assert_eq!(table.lines().count(), 1 + usize::from(NUMBER), "its head, and a line for each");
}

#[test]
fn an_option_that_holds_a_pointer_is_refused() {
    let _alone = alone();
    let mut kernel = boot();
    let (client, _server) = pair(&mut kernel, LOOPBACK);
    // struct sock_fprog: one instruction, somewhere.
    let filter = [1u64.to_ne_bytes(), 0xdead_0000u64.to_ne_bytes()].concat();
    let error = kernel.setsockopt(client, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter);
    assert_eq!(error.unwrap_err().errno, libc::ENOPROTOOPT);
}

#[test]
fn the_sources_of_a_group_stay_within_the_value() {
    let _alone = alone();
    let mut kernel = boot();
    for filter in [SourceFilter::of_ipv4(), SourceFilter::of_ipv6()] {
        let socket = kernel.socket(filter.family(), libc::SOCK_DGRAM, 0).unwrap();
        for (level, name, value) in filter.options() {
            kernel.setsockopt(socket, level, name, &value).unwrap();
        }
        filter.assert_told_within_the_value(|level, name, value| {
            kernel.getsockopt(socket, level, name, value).map_err(|error| error.errno)
        });
        kernel.close(socket);
    }
}

#[test]
fn an_idle_kernel_sleeps() {
    let _alone = alone();
    let clock = FakeClock::new(bed::WALL);
    let mut kernel = boot_at(&clock);
    let _idle = pair(&mut kernel, LOOPBACK);
    let minute = kernel.now() + Duration::from_secs(60).as_nanos() as u64;
    let mut wakes = 0;
    while kernel.now() < minute {
        kernel.turn(&mut Vec::new());
        let deadline = kernel.deadline().unwrap_or(minute);
        assert!(deadline > kernel.now(), "a turn that ended with something due");
        clock.advance_to(deadline);
        wakes += 1;
    }
    // Linux's own: orphans are counted each second, neighbours looked over each two.
    assert!(wakes < 300, "{wakes} wakes in a minute without anything to do");
}

#[test]
fn all_algorithms_are_there_and_steady_has_its_parameters() {
    let _alone = alone();
    let mut kernel = boot();
    let available = kernel.sysctl("net.ipv4.tcp_available_congestion_control").unwrap();
    for name in ["reno", "cubic", "bbr", "steady"] {
        assert!(available.split(' ').any(|a| a == name), "{name} in {available}");
        kernel.set_sysctl("net.ipv4.tcp_congestion_control", name).unwrap();
        let (client, server) = pair(&mut kernel, LOOPBACK);
        carry(&mut kernel, client, server, 1_000_000);
        kernel.close(client);
        kernel.close(server);
        kernel.turn(&mut Vec::new());
    }
    kernel.set_sysctl("net.ipv4.tcp_steady_target", "40").unwrap();
    assert_eq!(kernel.sysctl("net.ipv4.tcp_steady_target").unwrap(), "40");
    let error = kernel.set_sysctl("net.ipv4.tcp_congestion_control", "nonesuch").unwrap_err();
    assert_eq!(error.errno, libc::ENOENT);
}

#[test]
fn mptcp_connects_over_the_loopback_and_carries_bytes() {
    let _alone = alone();
    let mut kernel = boot();
    let address = LOOPBACK.parse().unwrap();
    let listener = listener(&mut kernel, address, libc::IPPROTO_MPTCP);
    let client = connect(&mut kernel, address, libc::IPPROTO_MPTCP);
    kernel.turn(&mut Vec::new());
    let server = kernel.accept(listener).unwrap();
    carry(&mut kernel, client, server, 3_000_000);
    let counters = kernel.read_proc("net/netstat").unwrap();
    assert!(counters.contains("MPTcpExt:"), "{counters}");
}

/// Each is opened and closed: what the kernel puts off until later must be done in the turns.
#[test]
fn files_can_be_read_between_all_turns_without_end() {
    let _alone = alone();
    let mut kernel = boot();
    let (client, server) = pair(&mut kernel, LOOPBACK);
    let open_files = |kernel: &mut Kernel| -> u32 {
        let text = kernel.sysctl("fs.file-nr").unwrap();
        text.split_whitespace().next().unwrap().parse().unwrap()
    };
    let before = open_files(&mut kernel);
    for _ in 0..2_000 {
        for file in ["net/protocols", "net/tcp", "net/snmp", "sys/net/ipv4/tcp_mem"] {
            assert!(!kernel.read_proc(file).unwrap().is_empty());
        }
        carry(&mut kernel, client, server, 1_000);
    }
    let after = open_files(&mut kernel);
    assert!(after < before + 50, "{before} files open, then {after}");
}
