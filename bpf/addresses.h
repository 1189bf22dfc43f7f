/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * The watched connections, by the socket's address: what each `ack` and `send`
 * needs. Socket storage costs a call, and some probes get a pointer that the
 * verifier does not let them use as a socket.
 *
 * Nearly all live in an array, at the place that their address hashes to, which
 * the JIT looks up without a call. If that place is taken, the connection lives
 * in a hash map.
 */
#ifndef TRANSOM_ADDRESSES_H
#define TRANSOM_ADDRESSES_H

#include "compat.h"
#include "tail.h"

#define PLACES_BITS 14

/* What every event says of its connection. */
struct identity {
	u64 cookie;
	u32 tgid;
	char comm[16];
};

struct by_address {
	u64 address; /* 0 = the place is free */
	struct identity id;
	u32 clamp;
	u32 told_bytes; /* bytes sent and received, when an `ack` or `send` was last due */
	u64 algorithm;	/* address of the tcp_congestion_ops last seen */
	u32 actions;	/* of the whole machine, when we last looked */
	u32 action;	/* the last one that was reported */
	u32 dup_acks;
	u32 zero_window_seq; /* the sequence number of the last segment that closes the window … */
	u64 last_ack_ns;
	u64 last_send_ns;
	u64 dropped_ns;		/* when our own queue last dropped a segment */
	u32 next_send_seq;	/* where the data ends that `send` has seen */
	u32 acked, cwnd_before; /* between entry and exit of tcp_rcv_established */
	u32 in_segment;		/* an `ack` waits for the exit */
	u8 sends_known;		/* next_send_seq holds */
	u8 settled;		/* its owner was seen to use it */
	u8 may_enter_cwr;	/* the last segment was an ACK that may have the kernel enter CWR */
	u32 heir;		/* the process that sent last, if it is not the owner */
	u64 zero_window_ns;	/* … and when TCP sent it */
	struct tail_probe tail;
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

/* How many are in `crowded_out`: usually none, and the lookup is a call. */
u32 crowded = 0;

static __always_inline u32 place_number(u64 address)
{
	u32 at;

	/* The verifier does not compute with a pointer to a socket, but lets half of it be copied. */
	asm volatile("%0 = %1" : "=w"(at) : "w"((u32)address));
	/* Knuth's multiplicative hash; sockets are aligned, so the low bits differ little. */
	return at * 0x9e3779b1U >> (32 - PLACES_BITS);
}

static __always_inline struct by_address *place_of(u64 address)
{
	u32 at = place_number(address);

	return bpf_map_lookup_elem(&places, &at);
}

static __always_inline struct by_address *find_address(u64 address)
{
	struct by_address *entry = place_of(address);

	if (entry && entry->address == address)
		return entry;
	return crowded ? bpf_map_lookup_elem(&crowded_out, &address) : NULL;
}

/* Returns a clean entry, or NULL if there is no memory for one. */
static __always_inline struct by_address *remember_address(u64 address, const struct identity *id)
{
	struct by_address *entry = place_of(address);
	struct by_address fresh;

	/* Its gaps, too: before 6.3 a map takes no byte that was not written (6715df8d5d24). */
	__builtin_memset(&fresh, 0, sizeof(fresh));
	fresh.address = address;
	fresh.id.cookie = id->cookie;
	fresh.id.tgid = id->tgid;
	__builtin_memcpy(fresh.id.comm, id->comm, sizeof(fresh.id.comm));
	/* Its own place still, if the socket connects again without a close in between. */
	if (entry && (entry->address == address ||
		      !__sync_val_compare_and_swap(&entry->address, 0, address))) {
		*entry = fresh;
		return entry;
	}
	if (bpf_map_update_elem(&crowded_out, &address, &fresh, BPF_ANY))
		return NULL;
	__sync_fetch_and_add(&crowded, 1);
	return bpf_map_lookup_elem(&crowded_out, &address);
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
	else if (crowded && !bpf_map_delete_elem(&crowded_out, &address))
		__sync_fetch_and_sub(&crowded, 1);
}

#endif
