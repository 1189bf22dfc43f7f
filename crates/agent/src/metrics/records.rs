//! What the kernel wrote, counted as it comes.

use std::mem;

use bytemuck::try_pod_read_unaligned;
use transom_event::plain_name;

use super::Metrics;
use crate::assemble::decided;
use crate::cgroups::Cgroups;
use crate::numbers::numbers;
use crate::raw::{RawDecision, RawRow};
use crate::store::records;

/// Rows that may wait at a time, 1.4 MB.
const MOST_UNNAMED: usize = 4096;

impl Metrics {
    /// Records as they came from the kernel. Only their numbers are read: the row that each is, with
    /// its names and addresses, is made once, with its file.
    pub fn count_records(&mut self, bytes: &[u8], cgroups: &mut Cgroups, us_per_jiffy: u32) {
        // Rows of one connection are counted in their order.
        self.count_unnamed(cgroups, us_per_jiffy);
        for record in records(bytes) {
            if let Ok(raw) = try_pod_read_unaligned::<RawRow>(record) {
                self.count_row(raw, cgroups, us_per_jiffy);
            } else if let Ok(raw) = try_pod_read_unaligned::<RawDecision>(record) {
                self.count_decision(decided(raw.decision));
            }
        }
        if self.unnamed.len() >= MOST_UNNAMED {
            cgroups.next_second();
            self.count_unnamed(cgroups, us_per_jiffy);
        }
    }

    /// Rows whose cgroup is looked for by now.
    pub fn count_unnamed(&mut self, cgroups: &mut Cgroups, us_per_jiffy: u32) {
        for raw in mem::take(&mut self.unnamed) {
            self.count_row(raw, cgroups, us_per_jiffy);
        }
    }

    /// A label cannot be taken back: what has no name yet waits until somebody looked for it.
    fn count_row(&mut self, raw: RawRow, cgroups: &mut Cgroups, us_per_jiffy: u32) {
        let Some(names) = cgroups.found(raw.cgroup) else {
            self.unnamed.push(raw);
            return;
        };
        let program = plain_name(&raw.comm);
        self.count(&numbers(&raw, us_per_jiffy), names.workload().unwrap_or(&program));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addresses::{Addresses, Tagger};
    use crate::assemble::Assembler;
    use crate::raw::{ROW_END, ROW_FAILED, ROW_INTERIM};
    use bytemuck::Zeroable;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_unit_names_a_workload_before_its_program_does() {
        let metrics = of_records(&[accepted(1500)], &mut cgroups());
        let text = metrics.text();
        let wanted = "transom_tcp_acknowledged_bytes_total{workload=\"web.service\"} 1500";
        assert!(text.contains(wanted), "{text}");
        let elsewhere = RawRow { cgroup: 9, ..accepted(1500) };
        let text = of_records(&[elsewhere], &mut cgroups()).text();
        assert!(text.contains("transom_tcp_acknowledged_bytes_total{workload=\"nginx\"} 1500"));
    }

    #[test]
    fn a_containers_workload_is_its_program_which_stays_when_it_is_started_anew() {
        let mut cgroups = Cgroups::of_journal();
        let begun = ["a1", "b2", "c3"].map(|id| id.repeat(32));
        for (n, id) in begun.iter().enumerate() {
            cgroups.note(20 + n as u64, &format!("/system.slice/docker-{id}.scope"));
        }
        let rows = [20, 21, 22].map(|cgroup| RawRow { cgroup, ..accepted(1500) });
        let text = of_records(&rows, &mut cgroups).text();
        let wanted = "transom_tcp_acknowledged_bytes_total{workload=\"nginx\"} 4500";
        assert!(text.contains(wanted), "{text}");
    }

    #[test]
    fn a_unit_that_is_not_looked_for_yet_is_not_counted_as_its_program() {
        let mount = tempfile::tempdir().unwrap();
        let mut cgroups = Cgroups::below(mount.path());
        let rows = ["a.service", "b.service"].map(|unit| {
            let path = mount.path().join(unit);
            std::fs::create_dir(&path).unwrap();
            let cgroup = std::fs::metadata(path).unwrap().ino();
            // The first finds itself alone.
            let found = (unit == "a.service").then(|| cgroups.found(cgroup));
            assert!(found.is_none_or(|names| names.is_some()));
            RawRow { cgroup, ..accepted(1500) }
        });
        let mut metrics = of_records(&rows, &mut cgroups);
        assert!(!metrics.text().contains("workload=\"b.service\""), "it waits");
        cgroups.next_second();
        metrics.count_unnamed(&mut cgroups, US_PER_JIFFY);
        let text = metrics.text();
        for unit in ["a.service", "b.service"] {
            let wanted =
                format!("transom_tcp_acknowledged_bytes_total{{workload=\"{unit}\"}} 1500");
            assert!(text.contains(&wanted), "{text}");
        }
        assert!(!text.contains("workload=\"nginx\""), "{text}");
    }

    const US_PER_JIFFY: u32 = 4000;
    const SECOND: u64 = 1_000_000_000;

    /// A connection to nginx, which runs in a unit.
    fn accepted(bytes_acked: u64) -> RawRow {
        const ACCEPT: u8 = 2;
        let mut raw = RawRow { kind: ROW_END, origin: ACCEPT, cgroup: 7, ..RawRow::zeroed() };
        raw.comm[..5].copy_from_slice(b"nginx");
        RawRow { begun_ns: SECOND, time_ns: 3 * SECOND, bytes_acked, ..raw }
    }

    fn cgroups() -> Cgroups {
        let mut cgroups = Cgroups::of_journal();
        cgroups.note(7, "/system.slice/web.service");
        cgroups
    }

    fn of_records(rows: &[RawRow], cgroups: &mut Cgroups) -> Metrics {
        let mut metrics = Metrics::new();
        metrics.count_records(bytemuck::cast_slice(rows), cgroups, US_PER_JIFFY);
        metrics
    }

    fn sorted(metrics: &Metrics) -> Vec<String> {
        let mut lines: Vec<String> = metrics.text().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }

    /// Of every kind, origin and end.
    fn many_records() -> Vec<RawRow> {
        let of = |n: u32| RawRow {
            kind: [ROW_END, ROW_INTERIM, ROW_FAILED][n as usize % 3],
            origin: (n / 3 % 3) as u8,
            state: (n % 12) as u8,
            cookie: (n / 2).into(),
            error: [0, libc::ETIMEDOUT, libc::ECONNRESET][n as usize / 5 % 3] as u16,
            flags: n as u8,
            cgroup: [7, 9][n as usize / 7 % 2],
            established_ns: SECOND + u64::from(n),
            bytes_received: u64::from(n).pow(3),
            retransmitted: n / 2,
            by_timeout: n / 4,
            data_segs_out: n * 10,
            busy: n,
            rwnd: n - n / 3,
            min_rtt_us: 1000,
            srtt_us: n * 100,
            ..accepted(u64::from(n).pow(4))
        };
        (0..300).map(of).collect()
    }

    #[test]
    fn what_is_counted_of_a_record_is_what_its_row_in_the_file_says() {
        let folder = tempfile::tempdir().unwrap();
        let tagger = Tagger::of_or_new(&folder.path().join("key")).unwrap();
        let mut assembler = Assembler::new(tagger, Addresses::Prefix, US_PER_JIFFY, 1);
        assembler.cgroups = cgroups();
        let mut of_rows = Metrics::new();
        for raw in &many_records() {
            let row = assembler.connection(raw);
            let name = row.unit.clone().or(row.program.clone()).unwrap();
            of_rows.count(&row, &name);
        }
        let of_records = sorted(&of_records(&many_records(), &mut cgroups()));
        assert_eq!(of_records, sorted(&of_rows));
        for said in [
            "receiver_window",
            "timed_out",
            "timeouts_total",
            "handshake_duration_seconds_count 33",
        ] {
            assert!(of_records.iter().any(|line| line.contains(said)), "{said}: {of_records:#?}");
        }
    }
}
