//! Packets beside events: one list, in the order of time.

use std::io::Write;

use transom_event::Event;

use crate::blackbox::{BlackBox, Packet};
use crate::headers::headers;
use crate::owners::Owners;

/// Writes all events, and the packets of their connections, each cut after `payload` bytes of it;
/// the number of those packets.
///
/// # Errors
/// Those of the events, the packets and the file.
pub fn write<W: Write, E: From<std::io::Error>>(
    file: &mut BlackBox<W>,
    owners: &Owners,
    events: impl Iterator<Item = Result<Event, E>>,
    packets: impl Iterator<Item = Result<Packet, E>>,
    payload: usize,
) -> Result<u64, E> {
    let mut packets = packets.peekable();
    let mut written = 0;
    let mut until = |time_ns: u64, file: &mut BlackBox<W>| -> Result<(), E> {
        while let Some(next) = packets.next_if(|next| match next {
            Ok(packet) => packet.time_ns <= time_ns,
            Err(_) => true,
        }) {
            let mut packet = next?;
            let Some(found) = headers(&packet.bytes) else { continue };
            let (source, destination) = (found.source, found.destination);
            let owner = owners.of(source, destination, packet.outgoing, packet.time_ns);
            let Some(owner) = owner else { continue };
            packet.outgoing = owner.sent;
            packet.bytes.truncate(found.length + payload);
            file.packet(&packet, owner.cookie)?;
            written += 1;
        }
        Ok(())
    };
    for event in events {
        let event = event?;
        until(event.time_ns, file)?;
        file.push(&event)?;
    }
    until(u64::MAX, file)?;
    Ok(written)
}
