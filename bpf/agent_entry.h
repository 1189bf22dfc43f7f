/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * What the agent remembers of a connection, in the socket's own storage, and the maps that it
 * shares with user space.
 */
#ifndef TRANSOM_AGENT_ENTRY_H
#define TRANSOM_AGENT_ENTRY_H

#include "agent.h"
#include <bpf/bpf_helpers.h>
#include "state.h"
#include "subflow.h"
#include "tail.h"

/* At most 184 bytes, with which the kernel's own part fill 256. */
struct tracked {
	u64 begun_ns;
	u64 established_ns;
	u64 reported_ns;
	u64 reported_bytes;
	u32 tgid;
	u32 cwnd_max;
	u32 by_recovery;
	u32 by_timeout;
	u32 by_probe;
	u32 timeouts;
	u32 retransmitted; /* of which the cause is known */
	u8 origin;
	u8 flags;
	u8 counted;
	u8 recents; /* it has decided something, which is in a map of its own */
	char comm[16];
	u8 rtt[TX_RTT_BUCKETS];
	u64 algorithm; /* address of the tcp_congestion_ops last seen */
	u32 clamp;
	u32 window_clamp;
	u32 actions; /* of the whole machine, when we last looked */
	u32 action;  /* the last one we told */
	u32 looked_bytes;
	u32 least_rtt; /* that a look has found: the kernel forgets what is older than five minutes */
	u8 chosen;     /* tx_choice, for level 2 */
	u8 choice_over;
	u8 refusals;   /* by this machine's own queue or device */
	u8 generation; /* that of the orders when it began */
	u32 recount;   /* the last one that it was counted in */
	struct tail_probe tail;
	u8 not_chosen; /* for want of room, although there was a reason */
	u8 no_timer; /* has brought it into Loss: a smaller path MTU has, or SACK that was taken back */
	u8 reneging_told; /* for rto_cause() */
	u8 syn_retransmitted;
	u8 syn_timeouts;
};

struct recents {
	u32 number;
	struct tx_recent last[TX_RECENT];
};

/* A child socket is cloned with the listener's entry, which is how it inherits the program. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct tracked);
} tracked SEC(".maps");

/* A map of its own, because most connections never have one. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct recents);
} recent SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, TX_AGENT_RING);
} rows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tx_agent_orders);
} agent_orders SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TX_AGENT_COUNTS);
	__type(key, __u32);
	__type(value, __u64);
} agent_counts SEC(".maps");

/* Of what is counted now, as the recount that goes on finds it: user space takes it for right then. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TX_AGENT_COUNTS);
	__type(key, __u32);
	__type(value, __u64);
} agent_recount SEC(".maps");

static __always_inline void count_in(void *counts, u32 what, s64 by)
{
	u64 *value = bpf_map_lookup_elem(counts, &what);

	if (value)
		__sync_fetch_and_add(value, by);
}

static __always_inline void count(u32 what, s64 by)
{
	count_in(&agent_counts, what, by);
}

static __always_inline struct tx_agent_orders *orders_now(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&agent_orders, &zero);
}

static __always_inline bool is_counted_anew(const struct tracked *entry,
					    const struct tx_agent_orders *orders)
{
	return entry->recount == orders->recount;
}

/* Connections, or what some of them have, that begin or end. */
static __always_inline void count_now(const struct tracked *entry, u32 what, s64 by)
{
	struct tx_agent_orders *orders = orders_now();

	count(what, by);
	if (orders && is_counted_anew(entry, orders))
		count_in(&agent_recount, what, by);
}

/* The recount has come to it. */
static __always_inline void count_anew(struct tracked *entry, const struct tx_agent_orders *orders)
{
	if (is_counted_anew(entry, orders))
		return;
	entry->recount = orders->recount;
	count_in(&agent_recount, TX_AGENT_TRACKED, 1);
	if (entry->recents)
		count_in(&agent_recount, TX_AGENT_RECENT, 1);
	if (entry->chosen && !entry->choice_over)
		count_in(&agent_recount, TX_AGENT_CHOSEN, 1);
}

/* One that a recount missed may end after it, so that for a while it is less than none. */
static __always_inline bool is_below(u32 what, u32 most)
{
	s64 *now = bpf_map_lookup_elem(&agent_counts, &what);

	return now && *now < (s64)most;
}

static __always_inline bool room_for_another(void)
{
	struct tx_agent_orders *orders = orders_now();

	return orders && is_below(TX_AGENT_TRACKED, orders->most);
}

/* The reader looks by itself every now and then: it is woken only when the ring fills. */
static __always_inline u64 wake(void)
{
	return bpf_ringbuf_query(&rows, BPF_RB_AVAIL_DATA) > TX_AGENT_RING / 4 ? BPF_RB_FORCE_WAKEUP
									       : BPF_RB_NO_WAKEUP;
}

/* Half of it is left for connections that end while a walk goes on, during which nobody reads. */
static __always_inline bool has_room_for_walk(void)
{
	return bpf_ringbuf_query(&rows, BPF_RB_AVAIL_DATA) < TX_AGENT_RING / 2;
}

static __always_inline struct tracked *entry_of(struct sock *sk)
{
	return bpf_sk_storage_get(&tracked, sk, NULL, 0);
}

static __always_inline struct tracked *entry_if_room(struct sock *sk, bool is_listener)
{
	struct tracked *entry = entry_of(sk);

	if (entry || !(is_listener || room_for_another()))
		return entry;
	return bpf_sk_storage_get(&tracked, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
}

/* Of a connection that begins: without an entry it has no row, which is counted. */
static __always_inline struct tracked *new_entry(struct sock *sk, bool is_listener)
{
	struct tracked *entry = entry_if_room(sk, is_listener);

	if (!entry)
		count(TX_AGENT_UNTRACKED, 1);
	return entry;
}

static __always_inline void take_in(struct tracked *entry, u8 origin)
{
	struct tx_agent_orders *orders = orders_now();
	u32 tgid = entry->tgid;
	char comm[16];

	__builtin_memcpy(comm, entry->comm, 16);
	__builtin_memset(entry, 0, sizeof(*entry));
	__builtin_memcpy(entry->comm, comm, 16);
	entry->tgid = tgid;
	entry->origin = origin;
	entry->begun_ns = bpf_ktime_get_boot_ns();
	entry->reported_ns = entry->begun_ns;
	entry->counted = 1;
	if (orders) {
		entry->generation = orders->generation;
		entry->recount = orders->recount;
	}
	if (orders && orders->causes && origin != TX_FROM_BEFORE)
		entry->flags = TX_CAUSES_KNOWN;
	count_now(entry, TX_AGENT_TRACKED, 1);
}

static __always_inline void take_in_from_before(struct tracked *entry)
{
	take_in(entry, TX_FROM_BEFORE);
	entry->begun_ns = 0;
}

#endif
