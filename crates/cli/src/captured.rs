//! `record --pcap`: the packets of the recorded connections, beside the events.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use transom_export::{BlackBox, Owners, Packet, beside};
use transom_monitor::{Capture, Packets};
use transom_output::{Output, Replace, is_file_or_new};
use transom_trace::Reader;

use crate::filters::FilterArgs;
use crate::handover::origin;

#[derive(clap::Args)]
pub struct PcapArgs {
    /// When the recording ends, also write its events to this pcapng file for Wireshark, and beside
    /// them the packets of the recorded connections: their headers
    #[arg(long, value_name = "PCAPNG", conflicts_with = "rotate")]
    pcap: Option<PathBuf>,
    /// With --pcap: keep so many bytes of the payload of each packet
    #[arg(long, value_name = "BYTES", default_value_t = 0, requires = "pcap",
          value_parser = clap::value_parser!(u32).range(..=65_000))]
    pcap_payload: u32,
}

/// A capture that will be written beside the events.
pub struct Beside {
    capture: Capture,
    path: PathBuf,
    payload: u32,
    replace: Replace,
}

/// The file that was written.
pub struct Written {
    pub file: PathBuf,
    pub packets: u64,
    /// Packets that the kernel had no room for.
    pub lost: u64,
}

impl PcapArgs {
    /// Begins the capture, if one is wanted. `trace`: where the events go.
    ///
    /// # Errors
    /// If the kernel allows no capture, or the file could not be written in the end.
    pub fn start(&self, filters: &FilterArgs, trace: &Path, force: bool) -> Result<Option<Beside>> {
        let Some(path) = self.pcap.clone() else { return Ok(None) };
        ensure!(
            is_file_or_new(trace),
            "--pcap reads the trace once more when it is whole: let -o name a file"
        );
        if path.exists() && is_file_or_new(&path) && !force {
            bail!("{} exists; --force replaces it", path.display());
        }
        ensure!(path != trace, "{} is the trace: name another file for --pcap", path.display());
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let spool = tempfile::tempfile_in(folder.unwrap_or(Path::new(".")))
            .with_context(|| format!("cannot write {}", path.display()))?;
        let (netns, interface) = (filters.netns.as_deref(), filters.interface.as_deref());
        let payload = self.pcap_payload;
        let capture = Capture::start(netns, interface, payload, spool)?;
        let replace = if force { Replace::Always } else { Replace::Never };
        Ok(Some(Beside { capture, path, payload, replace }))
    }
}

impl Beside {
    /// Ends the capture and writes the file, from the trace that is now whole.
    ///
    /// # Errors
    /// If the packets or the trace cannot be read, or the file cannot be written.
    pub fn finish(self, trace: &Path) -> Result<Written> {
        let mut packets = self.capture.finish()?;
        let mut output = Output::open(&self.path, &[trace], self.replace)?;
        let written = write(&mut packets, trace, self.payload, &mut output)
            .with_context(|| format!("cannot write {}", self.path.display()))?;
        output.finish()?;
        Ok(Written { file: self.path, packets: written, lost: packets.dropped })
    }
}

fn write(packets: &mut Packets, trace: &Path, payload: u32, output: &mut Output) -> Result<u64> {
    let mut owners = Owners::seen_in(packets.netns);
    for event in Reader::open(trace)? {
        owners.learn(&event?);
    }
    let events = Reader::open(trace)?;
    let names: Vec<String> = packets.interfaces.values().cloned().collect();
    let numbers: Vec<u32> = packets.interfaces.keys().copied().collect();
    let mut file = BlackBox::with_interfaces(output, &origin(&events), &names)?;
    let packets = packets.read()?.map(|packet| {
        let packet = packet?;
        let interface = numbers.binary_search(&packet.ifindex).unwrap_or(0) as u32;
        let transom_monitor::Captured { time_ns, outgoing, length, bytes, .. } = packet;
        Ok(Packet { time_ns, interface, outgoing, length, bytes })
    });
    let written = beside::write(&mut file, &owners, events, packets, payload as usize)?;
    file.finish()?;
    Ok(written)
}
