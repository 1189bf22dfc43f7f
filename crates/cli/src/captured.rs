//! `record --pcap`: the packets of the recorded connections, beside the events.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
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
    /// With --pcap: keep this many bytes of the payload of each packet, in a file that only its owner
    /// may read
    #[arg(long, value_name = "BYTES", default_value_t = 0, requires = "pcap",
          value_parser = clap::value_parser!(u32).range(..=65_000))]
    pcap_payload: u32,
}

/// A capture that will be written beside the events.
pub struct Beside {
    capture: Capture,
    file: Destination,
    /// Not of a FIFO: its reader may come as late as there is something to read.
    output: Option<Output>,
}

/// The file that will be written.
struct Destination {
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
    /// Begins the capture, if one is wanted. `trace`: where the events go; if it is a file, it is
    /// there already.
    ///
    /// # Errors
    /// If the kernel allows no capture, or the file could not be written in the end.
    pub fn start(&self, filters: &FilterArgs, trace: &Path, force: bool) -> Result<Option<Beside>> {
        let Some(path) = self.pcap.clone() else { return Ok(None) };
        ensure!(
            is_file_or_new(trace),
            "--pcap reads the trace once more when it is whole: let -o name a file"
        );
        let is_trace = || Some(fs::canonicalize(&path).ok()? == fs::canonicalize(trace).ok()?);
        ensure!(
            is_trace() != Some(true),
            "{} is the trace: name another file for --pcap",
            path.display()
        );
        let replace = if force { Replace::Always } else { Replace::Never };
        let file = Destination { path, payload: self.pcap_payload, replace };
        let is_fifo = fs::metadata(&file.path).is_ok_and(|found| found.file_type().is_fifo());
        let output = if is_fifo { None } else { Some(file.open(trace)?) };
        let folder = file.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let spool = tempfile::tempfile_in(folder.unwrap_or(Path::new(".")))
            .with_context(|| format!("cannot write {}", file.path.display()))?;
        let (netns, interface) = (filters.netns.as_deref(), filters.interface.as_deref());
        let capture = Capture::start(netns, interface, file.payload, spool)?;
        Ok(Some(Beside { capture, file, output }))
    }
}

impl Destination {
    /// Payload may be anything that programs send: it is not for everybody.
    fn open(&self, trace: &Path) -> Result<Output> {
        let open = if self.payload > 0 { Output::open_private } else { Output::open };
        open(&self.path, &[trace], self.replace)
    }
}

impl Beside {
    /// Ends the capture and writes the file, from the trace that is now whole.
    ///
    /// # Errors
    /// If the packets or the trace cannot be read, or the file cannot be written.
    pub fn finish(self, trace: &Path) -> Result<Written> {
        let Beside { capture, file, output } = self;
        let mut packets = capture.finish()?;
        let mut output = output.map_or_else(|| file.open(trace), Ok)?;
        let written = write(&mut packets, trace, file.payload, &mut output)
            .with_context(|| format!("cannot write {}", file.path.display()))?;
        output.finish()?;
        Ok(Written { file: file.path, packets: written, lost: packets.dropped })
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
