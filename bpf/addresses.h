/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * The watched connections once more, by the socket's address: some probes get
 * a pointer that the verifier does not let them use as a socket.
 *
 * Nearly all live in an array, at the place their address hashes to, which
 * the JIT looks up without a call; those whose place is taken, in a hash map.
 */
#ifndef TRANSOM_ADDRESSES_H
#define TRANSOM_ADDRESSES_H

#include "compat.h"

#define PLACES_BITS 14

/* What every event says of its connection. */
struct identity {
	u64 cookie;
	u32 tgid;
};

struct by_address {
	u64 address; /* 0 = the place is free */
	struct identity id;
	u64 last_send_ns;
	u64 dropped_ns;		/* when our own queue last dropped a segment */
	u32 next_send_seq;	/* where the data ends that `send` has seen */
	u32 acked, cwnd_before; /* between entry and exit of tcp_rcv_established */
	u32 in_segment;		/* an `ack` waits for the exit */
	u32 sends_known;	/* next_send_seq holds */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << PLACES_BITS);
	__type(key, __u32);
	__type(value, struct by_address);
} places SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 131072);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct by_address);
} crowded_out SEC(".maps");

/* To the verifier a socket is no number one may compute with; what memory holds is. */
static __always_inline u64 as_number(volatile u64 *memory, const struct sock *sk)
{
	*memory = (u64)sk;
	return *memory;
}

static __always_inline struct by_address *place_of(u64 address)
{
	/* Knuth's multiplicative hash; sockets are aligned, so low bits say little. */
	u32 at = (address * 0x9e3779b97f4a7c15ULL) >> (64 - PLACES_BITS);

	return bpf_map_lookup_elem(&places, &at);
}

static __always_inline struct by_address *find_address(u64 address)
{
	struct by_address *entry = place_of(address);

	if (entry && entry->address == address)
		return entry;
	return bpf_map_lookup_elem(&crowded_out, &address);
}

static __always_inline bool remember_address(u64 address, const struct identity *id)
{
	struct by_address fresh = {.address = address, .id = *id};
	struct by_address *entry = place_of(address);

	/* Its own place still, if the socket connects again without a close in between. */
	if (entry && (entry->address == address ||
		      !__sync_val_compare_and_swap(&entry->address, 0, address))) {
		entry->id = *id;
		entry->last_send_ns = 0;
		entry->dropped_ns = 0;
		entry->sends_known = 0;
		entry->in_segment = 0;
		return true;
	}
	return !bpf_map_update_elem(&crowded_out, &address, &fresh, BPF_ANY);
}

/* All data from this sequence number on is to pass the probe of `send`. */
static __always_inline void expect_send(struct by_address *entry, u32 seq)
{
	if (!entry)
		return;
	entry->next_send_seq = seq;
	entry->sends_known = 1;
}

static __always_inline void forget_address(u64 address)
{
	struct by_address *entry = place_of(address);

	if (entry && entry->address == address)
		entry->address = 0;
	else
		bpf_map_delete_elem(&crowded_out, &address);
}

#endif
