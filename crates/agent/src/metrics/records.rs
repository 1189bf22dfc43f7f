//! What the kernel wrote, counted as it comes.

use bytemuck::try_pod_read_unaligned;
use transom_event::plain_name;

use super::Metrics;
use crate::assemble::decided;
use crate::cgroups::Cgroups;
use crate::numbers::numbers;
use crate::raw::{RawDecision, RawRow};
use crate::store::records;

impl Metrics {
    /// Records as they came from the kernel. Only their numbers are read: the row that each is, with
    /// its names and addresses, is made once, with its file.
    pub fn count_records(&mut self, bytes: &[u8], cgroups: &mut Cgroups, us_per_jiffy: u32) {
        for record in records(bytes) {
            if let Ok(raw) = try_pod_read_unaligned::<RawRow>(record) {
                let names = cgroups.names(raw.cgroup);
                let program = plain_name(&raw.comm);
                self.count(&numbers(&raw, us_per_jiffy), names.workload().unwrap_or(&program));
            } else if let Ok(raw) = try_pod_read_unaligned::<RawDecision>(record) {
                self.count_decision(decided(raw.decision));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addresses::{Addresses, Tagger};
    use crate::assemble::Assembler;
    use crate::raw::{ROW_END, ROW_FAILED, ROW_INTERIM};
    use bytemuck::Zeroable;

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
