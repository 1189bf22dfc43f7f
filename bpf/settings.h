/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * What user space decides before the programs load: the verifier sees constants
 * and removes what is not asked for. One struct for every object that reads
 * sockets; crates/monitor/src/settings.rs is the same layout in Rust, and a test
 * compares both.
 */
#ifndef TRANSOM_SETTINGS_H
#define TRANSOM_SETTINGS_H

#include "match.h"
#include <bpf/bpf_helpers.h>

/* Which connections are wanted. Values of one key are alternatives, keys must all hold. */
struct tx_filter {
	__u64 cgroup;
	__u32 netns; /* inode number */
	__u32 ifindex;
	__u32 by_process; /* only sockets touched by a tgid in `processes` */
	__u32 follow_children;
	__u32 ports, local_ports, remote_ports; /* how many */
	__u32 local_prefixes, remote_prefixes;
	__u32 reserved;
	__u16 port[FILTER_MAX]; /* either end */
	__u16 local_port[FILTER_MAX];
	__u16 remote_port[FILTER_MAX];
	struct tx_prefix local_prefix[FILTER_MAX];
	struct tx_prefix remote_prefix[FILTER_MAX];
};

struct tx_settings {
	struct tx_filter filter;
	__u64 min_interval_ns;	/* between two `ack`, or two `send`, of a connection; 0 = each */
	__u64 ring_wake_at;	/* records that wait when the reader is woken */
	__u64 journal_capacity; /* entries of the bounded log */
	__u32 ring_bits;	/* records of one CPU's ring are 1 << ring_bits */
	__u32 us_per_jiffy;	/* icsk_rto counts jiffies */
	__u32 once_per_rtt;	/* `ack` and `send`: at most one of each per smoothed RTT */
	__u32 rto_by_state;	/* no better probe: the congestion state shows entry to Loss … */
	__u32 refusal_by_state; /* … and that the device refused a segment */
	__u32 by_choice;	/* only connections in `transom_chosen` (chosen.h) */
};

const volatile struct tx_settings settings SEC(".rodata.settings") = {
	.ring_wake_at = 64,
	.journal_capacity = 50000,
	.ring_bits = 8,
	.us_per_jiffy = 4000,
	.rto_by_state = 1,
	.refusal_by_state = 1,
};

#endif
