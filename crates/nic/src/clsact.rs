//! A clsact filter on an interface's ingress, for kernels without TCX.
//!
//! The filter outlives its process. Each process has a slot, with a lock that ends with the process:
//! the next start removes the filters of slots without a lock.

use std::os::fd::{AsRawFd, BorrowedFd};

use anyhow::{Context, Result, bail, ensure};
use rustix::io::Errno;

use crate::claim::Lock;
use transom_link::netlink::{Attributes, Message, NLM_F_CREATE, NLM_F_EXCL, Netlink, Request};

/// Priority of Transom's filters: no program is known to use it (tc counts down from 49152).
const PRIORITY: u32 = 84;
/// Processes at once on one interface.
const SLOTS: u32 = 64;
/// Bit of a filter's handle: the clsact qdisc was added with it, or with another of Transom's.
const MADE_QDISC: u32 = 1 << 16;
/// Name of Transom's filters.
const NAME: &str = "transom-divert";

/// linux/pkt_sched.h, rtnetlink.h, pkt_cls.h
const TC_H_CLSACT: u32 = 0xffff_fff1;
const HANDLE_CLSACT: u32 = 0xffff_0000;
const INGRESS: u32 = 0xffff_fff2;
const EGRESS: u32 = 0xffff_fff3;
const TCMSG: usize = 20;
const TCA_BPF_FD: u16 = 6;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_FLAGS: u16 = 8;
const TCA_BPF_FLAG_ACT_DIRECT: u32 = 1;

/// Removed when dropped.
pub(crate) struct Filter {
    /// In the interface's namespace, where the thread that drops this need not be.
    netlink: Netlink,
    index: u32,
    handle: u32,
    _lock: Lock,
}

impl Filter {
    pub(crate) fn attach(program: BorrowedFd<'_>, index: u32) -> Result<Filter> {
        let mut netlink = Netlink::open()?;
        // The last of us removes the qdisc that the first of us made.
        let inherited = filters(&mut netlink, index, INGRESS)?
            .iter()
            .any(|filter| has_our_name(filter) && filter.u32(8) & MADE_QDISC != 0);
        let mut free = None;
        for slot in 1..=SLOTS {
            // A slot that is locked belongs to another process of Transom.
            if let Some(lock) = Lock::take(&format!("divert/{index}/{slot}"))? {
                remove_stale(&mut netlink, index, slot)?;
                free.get_or_insert((slot, lock));
            }
        }
        let Some((slot, lock)) = free else {
            bail!("{SLOTS} processes already use this interface")
        };
        let made = make_qdisc(&mut netlink, index)?;
        let handle = if made || inherited { slot | MADE_QDISC } else { slot };
        let new = NLM_F_CREATE | NLM_F_EXCL;
        let request = Request::new(libc::RTM_NEWTFILTER, new, &filter(index, handle))
            .text(libc::TCA_KIND, "bpf")
            .nested(libc::TCA_OPTIONS, |options| {
                options
                    .attribute(TCA_BPF_FD, &(program.as_raw_fd() as u32).to_ne_bytes())
                    .text(TCA_BPF_NAME, NAME)
                    .attribute(TCA_BPF_FLAGS, &TCA_BPF_FLAG_ACT_DIRECT.to_ne_bytes())
            });
        netlink.request(request).context("adding a filter to the interface's ingress")?;
        Ok(Filter { netlink, index, handle, _lock: lock })
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        // The interface may be gone, and the filter with it.
        let _ = remove(&mut self.netlink, self.index, self.handle);
    }
}

/// struct tcmsg: family and padding, interface, handle, parent, info.
fn place(index: u32, handle: u32, parent: u32, info: u32) -> Vec<u8> {
    [0, index, handle, parent, info].map(u32::to_ne_bytes).concat()
}

/// Our filter of this handle, for all protocols.
fn filter(index: u32, handle: u32) -> Vec<u8> {
    let protocol = u32::from((libc::ETH_P_ALL as u16).to_be());
    place(index, handle, INGRESS, PRIORITY << 16 | protocol)
}

/// False: there was one.
fn make_qdisc(netlink: &mut Netlink, index: u32) -> Result<bool> {
    let place = place(index, HANDLE_CLSACT, TC_H_CLSACT, 0);
    let request = Request::new(libc::RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, &place);
    match netlink.request(request.text(libc::TCA_KIND, "clsact")) {
        Ok(_) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(error) => Err(error)
            .context("making a clsact qdisc: it needs the privilege CAP_NET_ADMIN (run as root)"),
    }
}

/// What a killed process left in this slot.
fn remove_stale(netlink: &mut Netlink, index: u32, slot: u32) -> Result<()> {
    for message in filters(netlink, index, INGRESS)? {
        let (handle, priority) = (message.u32(8), message.u32(16) >> 16);
        if priority != PRIORITY || handle & !MADE_QDISC != slot {
            continue;
        }
        ensure!(
            has_our_name(&message),
            "the interface has a filter of priority {PRIORITY} and handle {handle:#x} that is not \
             ours: remove it (tc filter del)"
        );
        remove(netlink, index, handle).context("removing what a killed process left")?;
    }
    Ok(())
}

fn has_our_name(filter: &Message) -> bool {
    let options = filter.attributes(TCMSG).find(|&(kind, _)| kind == libc::TCA_OPTIONS);
    let mut inside = Attributes(options.map_or(&[], |(_, options)| options));
    inside.any(|(kind, value)| {
        kind == TCA_BPF_NAME && value.strip_suffix(&[0]) == Some(NAME.as_bytes())
    })
}

/// No qdisc, no filters.
fn filters(netlink: &mut Netlink, index: u32, parent: u32) -> Result<Vec<Message>> {
    netlink.dump(Request::new(libc::RTM_GETTFILTER, 0, &place(index, 0, parent, 0)))
}

/// Removes the filter, and the qdisc if Transom added it and no other filter is left.
fn remove(netlink: &mut Netlink, index: u32, handle: u32) -> Result<()> {
    netlink.request(Request::new(libc::RTM_DELTFILTER, 0, &filter(index, handle)))?;
    let alone =
        filters(netlink, index, INGRESS)?.is_empty() && filters(netlink, index, EGRESS)?.is_empty();
    if handle & MADE_QDISC != 0 && alone {
        let place = place(index, HANDLE_CLSACT, TC_H_CLSACT, 0);
        netlink.request(Request::new(libc::RTM_DELQDISC, 0, &place))?;
    }
    Ok(())
}
