//! Builds one situation over real kernels and records it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::catalogue::{Receive, Send, Side, Situation};
use crate::companion::Companion;
use crate::network::{Network, OTHER_PORT, PORT, netns};
use crate::{policy, programs, sockets};

/// Runs it, writes its trace to `file`, and says how late the emulator was (ms, 99th percentile).
///
/// # Errors
/// If a host, the emulator, the recorder or a program failed; nothing is left behind then.
pub fn run(situation: &Situation, transom: &Path, file: &Path) -> Result<f64> {
    let network = Network::put_up(situation)?;
    let recorded = match situation.record {
        Side::Sender => network.sender()?,
        Side::Receiver => network.receiver()?,
    };
    let steady = situation.send.algorithm.as_deref() == Some(policy::STEADY);
    let sender = netns(network.sender()?);
    let policy = steady.then(|| Companion::tune(transom, &sender, file)).transpose()?;
    let recorder = Companion::record(transom, &netns(recorded), file)?;
    connect_and_send(situation, &network, recorder)?;
    policy.map_or(Ok(()), Companion::finish)?;
    network.take_down()
}

fn connect_and_send(situation: &Situation, network: &Network, recorder: Companion) -> Result<()> {
    let over = AtomicBool::new(false);
    let at = network.listens(PORT)?;
    let listener = sockets::listen(network.receiver()?, at, &situation.receive)?;
    let cut = situation.cut;
    if cut.is_some_and(|cut| cut.at_s <= 0.0) {
        network.cut()?;
    }
    std::thread::scope(|scope| {
        scope.spawn(|| programs::serve(&listener, &situation.send, &situation.receive, &over));
        let sending = scope.spawn(|| send(situation, network, &over));
        let other = situation.competing.as_ref().map(|_| scope.spawn(|| compete(network, &over)));
        let began = Instant::now();
        let wait = |until: f64| {
            let until = began + Duration::from_secs_f64(until.min(situation.seconds));
            while Instant::now() < until && !sending.is_finished() {
                std::thread::sleep(Duration::from_millis(2));
            }
        };
        let meddled = cut.filter(|cut| cut.at_s > 0.0).map_or(Ok(()), |cut| {
            wait(cut.at_s);
            network.cut()?;
            if let Some(length) = cut.for_s {
                wait(cut.at_s + length);
                network.heal()?;
            }
            Ok(())
        });
        wait(situation.seconds);
        let finished = recorder.finish();
        over.store(true, Ordering::Relaxed);
        let sent = sending.join().map_err(|_| anyhow::anyhow!("the sender panicked"))?;
        if let Some(other) = other {
            other.join().map_err(|_| anyhow::anyhow!("the competing sender panicked"))??;
        }
        meddled.and(finished).and(sent)
    })
}

fn send(situation: &Situation, network: &Network, over: &AtomicBool) -> Result<()> {
    let to = network.listens(PORT)?;
    let patience = Duration::from_secs_f64(situation.seconds);
    for _ in 0..situation.send.connections {
        let stream = sockets::connect(network.sender()?, to, &situation.send, patience)?;
        let Some(mut stream) = stream else { return Ok(()) };
        let sent = programs::send(&mut stream, &situation.send, over).context("sending");
        // The receiver may leave first, with data that it has not read: a reset.
        if !over.load(Ordering::Relaxed) {
            sent?;
        }
        if situation.send.total.is_none() {
            // Open until the recording has ended: a close would add an end that nobody asked for.
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(sockets::PATIENCE);
            }
        }
    }
    Ok(())
}

fn compete(network: &Network, over: &AtomicBool) -> Result<()> {
    let at = network.listens(OTHER_PORT)?;
    let listener = sockets::listen(network.receiver()?, at, &Receive::default())?;
    let patience = Duration::from_secs(5);
    let options = Send::default();
    let stream = sockets::connect(network.other()?, at, &options, patience)?;
    let mut stream = stream.context("the competing flow did not connect")?;
    std::thread::scope(|scope| {
        let receiving =
            scope.spawn(|| programs::serve(&listener, &options, &Receive::default(), over));
        let sent = programs::send(&mut stream, &options, over);
        let _ = receiving.join();
        sent
    })
}
