/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * What the policy's programs and user space tell each other:
 * crates/control/src/contract.rs is the same layout in Rust.
 */
#ifndef TRANSOM_POLICY_H
#define TRANSOM_POLICY_H

#include "event.h"
#include "match.h"
#include "tuned.h"

/* A rule's number is a bit of a mask. */
#define TX_RULES 32
#define TX_PROGRAMS 4

enum tx_stability { TX_ANY_STABILITY, TX_STABLE, TX_UNSTABLE_ONLY };

/* Which connections; 0 = not asked. Values of one key are alternatives, keys must all hold. */
struct tx_rule {
	__u64 cgroup;
	__u32 reserved;
	__u32 netns; /* inode number */
	__u32 ifindex;
	__u32 used;			 /* 0 = there is no such rule */
	__u32 programs, ports, prefixes; /* how many */
	__u32 rtt_least_us, rtt_most_us;
	__u32 terminals_least, terminals_most;
	__u32 stability;
	char program[TX_PROGRAMS][16];
	__u16 port[FILTER_MAX];		     /* either end */
	struct tx_prefix prefix[FILTER_MAX]; /* of the other end */
	struct tx_wish wish;
};

enum tx_mode { TX_OBSERVE = 1, TX_ACT, TX_RESTORE };

struct tx_orders {
	__u32 mode;	 /* what `walk` does */
	__u32 terminals; /* on this access point; 0 = not known */
};

/* One connection, as `walk` found it. */
struct tx_seen {
	__u64 cookie;
	__u64 rules; /* bit n: all that does not change holds for rule n */
	__u32 tcp_state;
	__u32 ca_state;
	__u32 cwnd; /* segments */
	__u32 ssthresh;
	__u32 clamp;
	__u32 mss; /* bytes */
	__u32 srtt_us;
	__u32 min_rtt_us;    /* ~0 = not measured */
	__u32 delivered;     /* segments */
	__u32 sent;	     /* segments with data, retransmissions included */
	__u32 retransmitted; /* segments */
	__u32 timeouts;	     /* in a row */
	__u32 unsent;	     /* bytes that the program has written and that wait */
	__u32 reserved;
	struct tx_open open;
	struct tx_tuned tuned;
};

_Static_assert(sizeof(struct tx_wish) == 40, "wish");
_Static_assert(sizeof(struct tx_tuned) == 88, "tuned");
_Static_assert(sizeof(struct tx_rule) == 512, "rule");
_Static_assert(sizeof(struct tx_seen) == 256, "seen");

#endif
