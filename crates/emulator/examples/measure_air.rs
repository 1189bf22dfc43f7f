//! How exact the emulator is, with real programs in real network namespaces.
//!
//! `sudo target/release/examples/measure_air [ping|rate|loss|unlimited|stations]…`, nothing: all.
//! Needs ip, ping (iputils) and iperf3. `TRANSOM=PROGRAM` records the hosts while
//! `stations` runs. Its namespaces go at the end.

#[path = "../tests/hosts/mod.rs"]
mod hosts;

use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hosts::{Background, Hosts, ip, plan, run};
use serde_json::Value;
use transom_emulator::log::Log;
use transom_emulator::plan::{Air, Direction, Path, Side, Station};

const NEAR: usize = 0;
const FAR: usize = 1;
/// The largest UDP payload of an unfragmented packet of 1500 bytes.
const PAYLOAD: u32 = 1472;

fn main() -> Result<()> {
    ensure!(transom_testbed::has("root"), "network namespaces need root: run it with sudo");
    let asked: Vec<String> = std::env::args().skip(1).collect();
    for (name, measure) in [
        ("ping", ping as fn() -> Result<()>),
        ("rate", rate),
        ("loss", loss),
        ("unlimited", unlimited),
        ("stations", stations),
    ] {
        if asked.is_empty() || asked.iter().any(|one| one == name) {
            measure()?;
            println!();
        }
    }
    Ok(())
}

fn between(path: Path) -> Result<Hosts> {
    // A queue that holds what a host sends while the emulator is kept from running.
    let mut plan = plan(1, None, path, vec![Side::Near, Side::Far]);
    plan.spin_us = std::env::var("SPIN_US").map_or(Ok(0), |text| text.parse())?;
    Hosts::start_with_queues(&plan, 10_000)
}

/// Round trips of 300 pings, 20 ms apart.
fn ping() -> Result<()> {
    println!("RTT, ms   mean of ping   error   deviation   lateness p50     p99   CPU   realtime");
    for rtt_ms in [0.0, 1.0, 16.0, 64.0, 256.0] {
        let hosts = between(Path { rtt_ms, ..Path::default() })?;
        let target = ip(FAR).to_string();
        let mut command = hosts.command(NEAR, "ping");
        let output = run(command.args(["-q", "-c", "300", "-i", "0.02", &target]))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find_map(|line| line.strip_prefix("rtt min/avg/max/mdev = "));
        let numbers: Vec<f64> = line
            .context("ping prints no summary: is it iputils' ping?")?
            .trim_end_matches(" ms")
            .split(['/', ' ', ','])
            .filter_map(|number| number.parse().ok())
            .collect();
        ensure!(numbers.len() >= 4, "ping: {line:?}");
        let log = hosts.stop()?;
        println!(
            "{rtt_ms:7} {:14.3} {:+7.3} {:11.3} {:14.3} {:7.3} {:4.1} %   {}",
            numbers[1],
            numbers[1] - rtt_ms,
            numbers[3],
            log.lateness.p50_ms,
            log.lateness.p99_ms,
            log.cpu_s / log.wall_s * 100.0,
            log.realtime,
        );
    }
    Ok(())
}

/// UDP at 1.3 times the rate, 6 s; what the receiver got in whole seconds.
fn rate() -> Result<()> {
    println!("rate, Mbit/s   got, from IP on   error");
    for rate_mbit in [1.0, 5.0, 20.0, 100.0, 200.0] {
        let up = Direction {
            rate_mbit: Some(rate_mbit),
            queue_packets: Some(50),
            ..Direction::default()
        };
        let hosts = between(Path { up, ..Path::default() })?;
        let offered = format!("{}M", rate_mbit * 1.3);
        let result = udp(&hosts, &["-t", "6", "-b", &offered, "-l", &PAYLOAD.to_string()])?;
        let intervals = result["server_output_json"]["intervals"]
            .as_array()
            .context("iperf3's server reports no intervals")?;
        let seconds: Vec<f64> = intervals[1..intervals.len() - 1]
            .iter()
            .filter(|interval| interval["sum"]["seconds"].as_f64().is_some_and(|s| s > 0.9))
            .filter_map(|interval| interval["sum"]["bits_per_second"].as_f64())
            .collect();
        let mean = seconds.iter().sum::<f64>() / seconds.len() as f64 / 1e6;
        let got = mean * f64::from(PAYLOAD + 28) / f64::from(PAYLOAD);
        println!("{rate_mbit:12} {got:17.3} {:+6.2} %", (got / rate_mbit - 1.0) * 100.0);
    }
    Ok(())
}

/// 500,000 datagrams.
fn loss() -> Result<()> {
    println!("loss     burst   iperf3 lost   emulator lost   of   share   error   expected error");
    for (loss, loss_burst) in [(0.002, None), (0.01, None), (0.05, None), (0.01, Some(4.0))] {
        let up = Direction { loss, loss_burst, ..Direction::default() };
        let hosts = between(Path { up, ..Path::default() })?;
        let result = udp(&hosts, &["-k", "500000", "-b", "30M", "-l", "100", "-w", "1M"])?;
        let lost = result["end"]["sum"]["lost_packets"].as_u64().context("no loss reported")?;
        let log = hosts.stop()?;
        let share = log.up.lost as f64 / log.up.packets as f64;
        // One standard deviation of a binomial count, in bursts larger by about their length.
        let expected = ((1.0 - loss) * (2.0 * loss_burst.unwrap_or(1.0) - 1.0)
            / (loss * log.up.packets as f64))
            .sqrt();
        println!(
            "{loss:<8} {:5} {lost:13} {:15} {:7} {share:.5} {:+6.2} % {:14.2} %",
            loss_burst.map_or("-".to_owned(), |burst| burst.to_string()),
            log.up.lost,
            log.up.packets,
            (share / loss - 1.0) * 100.0,
            expected * 100.0
        );
    }
    Ok(())
}

/// One TCP connection over a path that limits nothing, and over 20 Mbit/s; 5 s each.
fn unlimited() -> Result<()> {
    println!("rate, Mbit/s   TCP, Mbit/s   CPU of a core   lateness p50, p99 ms");
    for rate_mbit in [None, Some(20.0)] {
        let queue_packets = rate_mbit.map(|_| 100);
        let up = Direction { rate_mbit, queue_packets, ..Direction::default() };
        let hosts = between(Path { rtt_ms: 1.0, up, ..Path::default() })?;
        let _server = Background::start(hosts.command(FAR, "iperf3").args(["-s", "-1"]))?;
        sleep(Duration::from_millis(300));
        let target = ip(FAR).to_string();
        let mut client = hosts.command(NEAR, "iperf3");
        let output = run(client.args(["-J", "-t", "5", "-c", &target]))?;
        let result: Value = serde_json::from_slice(&output.stdout)?;
        let bits = result["end"]["sum_received"]["bits_per_second"].as_f64();
        let log = hosts.stop()?;
        println!(
            "{:>12} {:13.1} {:13.1} %   {:.3} {:.3}",
            rate_mbit.map_or("none".to_owned(), |mbit| mbit.to_string()),
            bits.context("iperf3 reports no rate")? / 1e6,
            log.cpu_s / log.wall_s * 100.0,
            log.lateness.p50_ms,
            log.lateness.p99_ms,
        );
    }
    Ok(())
}

/// TCP from every station at once to one far host.
fn stations() -> Result<()> {
    println!(
        "stations   Mbit/s   Jain   air busy   collided   CPU of a core   lateness p50, p99, max ms   realtime"
    );
    for number in [1, 2, 4, 8] {
        let mut sides = vec![Side::Far];
        sides.extend((0..number).map(|_| Side::Air(Station::default())));
        let rtt_ms = 16.0;
        let path = Path { rtt_ms, ..Path::default() };
        let hosts = Hosts::start(&plan(1, Some(Air::default()), path, sides))?;
        let servers: Vec<Background> = (1..=number)
            .map(|station| {
                let port = (5200 + station).to_string();
                Background::start(hosts.command(0, "iperf3").args(["-s", "-1", "-p", &port]))
            })
            .collect::<Result<_>>()?;
        let _recorder = record()?;
        sleep(Duration::from_millis(300));
        let target = ip(0).to_string();
        let clients: Vec<std::process::Child> = (1..=number)
            .map(|station| {
                let port = (5200 + station).to_string();
                let mut command = hosts.command(station, "iperf3");
                command.args(["-J", "-t", "10", "-c", &target, "-p", &port]);
                Ok(command.stdout(std::process::Stdio::piped()).spawn()?)
            })
            .collect::<Result<_>>()?;
        sleep(Duration::from_millis(1500));
        let before = hosts.running().snapshot();
        sleep(Duration::from_secs(8));
        let after = hosts.running().snapshot();
        let mut goodput = Vec::new();
        for client in clients {
            let output = client.wait_with_output()?;
            let result: Value = serde_json::from_slice(&output.stdout)?;
            let bits = result["end"]["sum_received"]["bits_per_second"].as_f64();
            goodput.push(bits.with_context(|| format!("iperf3: {}", result["error"]))? / 1e6);
        }
        drop(servers);
        print_stations(number, &goodput, &before, &after, &hosts.stop()?)?;
    }
    Ok(())
}

/// Records every event of all hosts, if TRANSOM names the program.
fn record() -> Result<Option<(Background, tempfile::TempDir)>> {
    let Ok(transom) = std::env::var("TRANSOM") else { return Ok(None) };
    let folder = tempfile::tempdir()?;
    let mut command = Command::new(transom);
    command.args(["record", "-q", "--local", "10.77.0.0/24", "-o"]);
    let recorder = Background::start(command.arg(folder.path().join("trace.parquet")))?;
    Ok(Some((recorder, folder)))
}

fn print_stations(
    number: usize,
    goodput: &[f64],
    before: &Log,
    after: &Log,
    end: &Log,
) -> Result<()> {
    let sum: f64 = goodput.iter().sum();
    let squares: f64 = goodput.iter().map(|mbit| mbit * mbit).sum();
    let air = after.air.as_ref().context("the plan has an air")?;
    println!(
        "{number:8} {sum:8.2} {:6.3} {:8.1} % {:8.1} % {:13.1} %   {:.3} {:.3} {:.3} {:10}",
        sum * sum / (goodput.len() as f64 * squares),
        air.busy_share * 100.0,
        air.collisions as f64 / air.accesses as f64 * 100.0,
        (after.cpu_s - before.cpu_s) / (after.wall_s - before.wall_s) * 100.0,
        end.lateness.p50_ms,
        end.lateness.p99_ms,
        end.lateness.max_ms,
        end.realtime,
    );
    Ok(())
}

/// One iperf3 run of UDP from near to far.
fn udp(hosts: &Hosts, arguments: &[&str]) -> Result<Value> {
    let _server = Background::start(hosts.command(FAR, "iperf3").args(["-s", "-1", "-J"]))?;
    sleep(Duration::from_millis(300));
    let target = ip(FAR).to_string();
    let mut command: Command = hosts.command(NEAR, "iperf3");
    command.args(["-J", "-u", "--get-server-output", "-c", &target]).args(arguments);
    Ok(serde_json::from_slice(&run(&mut command)?.stdout)?)
}
