//! The structs that C and Rust share, field by field: the compiled objects' own BTF against ours.

use std::mem::offset_of;

use libbpf_rs::btf::types::{Array, Composite, Int, MemberAttr, Struct};
use libbpf_rs::btf::{Btf, BtfType};
use libbpf_rs::{AsRawLibbpf, HasSize, OpenObject};
use transom_event::{Head, Open, Sack, State};
use transom_machine::objects;

use crate::rings::Counts;
use crate::settings::{FilterSettings, PrefixSettings, Settings};

/// Name, offset and size of each field, bytes.
type Layout = Vec<(String, usize, usize)>;

fn btf(open: &OpenObject) -> Btf<'_> {
    // SAFETY: libbpf's object lives as long as `open`, which stays borrowed.
    let object = unsafe { open.as_libbpf_object().as_ref() };
    Btf::from_bpf_object(object).unwrap().expect("the object has BTF")
}

/// What the compiler made of a C struct: its size and its fields.
fn of_c(btf: &Btf<'_>, name: &str) -> (usize, Layout) {
    let found: Struct<'_> =
        btf.type_by_name(name).unwrap_or_else(|| panic!("the object has no struct {name}"));
    let fields = found.iter().map(|member| {
        let MemberAttr::Normal { offset } = member.attr else { panic!("a bit field in {name}") };
        let of: BtfType<'_> = btf.type_by_id(member.ty).expect("the type of a field");
        let field = member.name.expect("a name").to_string_lossy().into_owned();
        (field, offset as usize / 8, size(of))
    });
    (found.size(), fields.collect())
}

fn size(of: BtfType<'_>) -> usize {
    let of = of.skip_mods_and_typedefs();
    if let Ok(array) = Array::try_from(of) {
        return array.capacity() * size(array.contained_type());
    }
    if let Ok(composite) = Composite::try_from(of) {
        return composite.size();
    }
    Int::try_from(of).map(|int| int.size()).expect("a number, an array or a struct")
}

fn size_of_field<T, F>(_: fn(&T) -> &F) -> usize {
    size_of::<F>()
}

macro_rules! of_rust {
    ($type:ty { $($field:ident $(= $c:literal)?),* $(,)? }) => {{
        let fields: Layout = vec![$((
            [stringify!($field), $($c)?].last().copied().unwrap_or_default().to_owned(),
            offset_of!($type, $field),
            size_of_field(|whole: &$type| &whole.$field),
        )),*];
        (size_of::<$type>(), fields)
    }};
}

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
                cgroup_level,
                netns,
                ifindex,
                by_process,
                follow_children,
                ports,
                local_ports,
                remote_ports,
                local_prefixes,
                remote_prefixes,
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
                reserved,
            }),
        ),
    ]
}

#[test]
fn every_field_is_where_the_compiled_programs_have_it() {
    let objects = [("monitor", objects::monitor::open()), ("journal", objects::journal::open())];
    for (object, open) in objects {
        let open = open.unwrap();
        let btf = btf(&open);
        for (name, layout) in ours() {
            assert_eq!(of_c(&btf, name), layout, "struct {name} of {object}");
        }
    }
}

#[test]
fn a_ring_counts_where_the_compiled_programs_do() {
    let open = objects::monitor::open().unwrap();
    let btf = btf(&open);
    let counts = of_rust!(Counts { reserved, _pad = "pad", taken, _pad2 = "pad2" });
    assert_eq!(of_c(&btf, "ring"), counts);
}
