//! What is written into a BPF object between opening and loading it: the
//! verifier then sees constants and removes what is not asked for.

use anyhow::{Context, Result, bail};
use libbpf_rs::OpenObject;

use crate::probes::Tier;
use crate::session::{Options, Rate};
use crate::survey::Survey;

pub(crate) use transom_machine::objects::journal::types::rodata as JournalSettings;
pub(crate) use transom_machine::objects::monitor::types::{
    rodata as MonitorSettings, tx_filter as FilterSettings,
};

/// Where a map's initial bytes are, seen as the settings struct they hold.
pub(crate) fn settings_of<T>(open: &mut OpenObject) -> Result<&mut T> {
    let map = open.maps_mut().find(|map| map.name().to_string_lossy().ends_with(".rodata"));
    let mut map = map.context("the BPF object has no settings")?;
    let bytes = map.initial_value_mut().context("the BPF object's settings are closed")?;
    if bytes.len() < size_of::<T>() || bytes.as_ptr().align_offset(align_of::<T>()) != 0 {
        bail!("the BPF object's settings have another layout");
    }
    // SAFETY: the bytes are libbpf's page-aligned copy of .rodata, which the generated
    // struct describes; they live as long as `open`, which stays borrowed.
    Ok(unsafe { &mut *bytes.as_mut_ptr().cast::<T>() })
}

/// What the kernel side has to know before it loads, in either object.
pub(crate) struct Common {
    pub filter: FilterSettings,
    pub once_per_rtt: i32,
    pub min_interval_ns: u64,
    pub rto_by_state: i32,
    pub refusal_by_state: i32,
}

impl Common {
    pub(crate) fn new(survey: &Survey, options: &Options) -> Result<Common> {
        let by_tracepoint =
            |purpose| survey.chosen(purpose).is_none_or(|c| c.tier == Tier::Tracepoint);
        let (once_per_rtt, min_interval_ns) = match options.rate {
            Rate::Every => (0, 0),
            Rate::OncePerRtt => (1, 0),
            Rate::Interval(interval) => (0, interval.as_nanos() as u64),
        };
        Ok(Common {
            filter: options.filter.settings()?,
            once_per_rtt,
            min_interval_ns,
            rto_by_state: by_tracepoint("rto").into(),
            refusal_by_state: by_tracepoint("local_congestion").into(),
        })
    }
}

/// Both objects have the settings of `probes.h`, each at places of its own.
macro_rules! apply {
    ($settings:expr, $common:expr) => {{
        let (settings, common) = ($settings, $common);
        // SAFETY: one C struct, described once for each object: only integers, in one layout.
        settings.filter = unsafe { std::mem::transmute_copy(&common.filter) };
        settings.us_per_jiffy = crate::clock::microseconds_per_jiffy();
        settings.once_per_rtt = common.once_per_rtt;
        settings.min_interval_ns = common.min_interval_ns;
        settings.rto_by_state = common.rto_by_state;
        settings.refusal_by_state = common.refusal_by_state;
        settings
    }};
}
pub(crate) use apply;
