//! The structs that C and Rust share, field by field.

use transom_event::{Head, Open, Sack, State};
use transom_machine::objects;
use transom_testbed::layout::{Layout, assert_same, of_rust};

use crate::presence::Shared;
use crate::rings::Counts;
use crate::settings::{FilterSettings, PrefixSettings, Settings};

fn ours() -> Vec<(&'static str, (usize, Layout))> {
    vec![
        ("tx_head", of_rust!(Head { time_ns, cookie, tgid, cpu, kind, place = "where", aux })),
        (
            "tx_state",
            of_rust!(State {
                cwnd,
                ssthresh,
                clamp,
                snd_una,
                snd_nxt,
                rcv_nxt,
                snd_wnd,
                rcv_wnd,
                packets_out,
                sacked_out,
                lost_out,
                retrans_out,
                rto_us,
                srtt_us,
                mdev_us,
                min_rtt_us,
                send_queue,
                recv_queue,
                unsent,
                delivered,
                pacing_rate,
                mss,
                ca_state,
                tcp_state,
                flags,
                backoff,
                send_buffer,
            }),
        ),
        (
            "tx_open",
            of_rust!(Open {
                local_addr,
                remote_addr,
                local_port,
                remote_port,
                netns,
                ifindex,
                family,
                reserved,
                cgroup,
                comm,
                algorithm,
                mptcp,
                reserved2,
            }),
        ),
        (
            "tx_sack",
            of_rust!(Sack {
                blocks,
                cwnd,
                ssthresh,
                snd_una,
                snd_nxt,
                packets_out,
                sacked_out,
                lost_out,
                retrans_out,
                ca_state,
                tcp_state,
                reserved,
                reserved2,
            }),
        ),
        ("tx_prefix", of_rust!(PrefixSettings { addr, family, length })),
        (
            "tx_filter",
            of_rust!(FilterSettings {
                cgroup,
                netns,
                ifindex,
                by_process,
                follow_children,
                ports,
                local_ports,
                remote_ports,
                local_prefixes,
                remote_prefixes,
                reserved,
                port,
                local_port,
                remote_port,
                local_prefix,
                remote_prefix,
            }),
        ),
        (
            "tx_settings",
            of_rust!(Settings {
                filter,
                min_interval_ns,
                ring_wake_at,
                journal_capacity,
                ring_bits,
                us_per_jiffy,
                once_per_rtt,
                rto_by_state,
                refusal_by_state,
                by_choice,
            }),
        ),
    ]
}

#[test]
fn every_field_is_where_the_compiled_programs_have_it() {
    for open in [objects::monitor::open(), objects::journal::open()] {
        assert_same(&open.unwrap(), &ours());
    }
}

#[test]
fn a_ring_counts_where_the_compiled_programs_do() {
    let open = objects::monitor::open().unwrap();
    let counts = of_rust!(Counts { reserved, _pad = "pad", taken, _pad2 = "pad2" });
    assert_same(&open, &[("ring", counts)]);
}

#[test]
fn what_decides_which_probes_are_attached_is_where_the_compiled_programs_have_it() {
    let open = objects::monitor::open().unwrap();
    assert_same(&open, &[("presence", of_rust!(Shared { wanted_ns, detached, pad }))]);
}
