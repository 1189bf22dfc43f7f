/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * The connections that are not wanted, so that what they send and receive costs next to nothing:
 * without this each of their segments, and each system call, looks the socket's storage up. One that
 * is not noted here, since another one has its place, is only looked up again.
 */
#ifndef TRANSOM_BYSTANDER_H
#define TRANSOM_BYSTANDER_H

#include "addresses.h"

/* A thread group's number is less than 2^22 (PID_MAX_LIMIT); cookies do not get near 2^40. */
#define TGID_BITS 24

/* Cookie and owner in one word, which is written and read at once; 0 = the place is free. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << PLACES_BITS);
	__type(key, __u32);
	__type(value, __u64);
} bystanders SEC(".maps");

static __always_inline u64 *bystander_at(u64 address)
{
	u32 at = place_number(address);

	return bpf_map_lookup_elem(&bystanders, &at);
}

static __always_inline u64 bystander_mark(u64 cookie, u32 tgid)
{
	return cookie << TGID_BITS | (tgid & ((1U << TGID_BITS) - 1));
}

/* Whoever owns it. */
static __always_inline bool is_bystander(struct sock *sk)
{
	u64 *mark = bystander_at((u64)sk), cookie = sk->__sk_common.skc_cookie.counter;

	return mark && cookie && *mark >> TGID_BITS == (cookie << TGID_BITS) >> TGID_BITS;
}

/* And this process is known to own it. */
static __always_inline bool is_bystander_of(struct sock *sk, u32 tgid)
{
	u64 *mark = bystander_at((u64)sk), cookie = sk->__sk_common.skc_cookie.counter;

	return mark && cookie && *mark == bystander_mark(cookie, tgid);
}

static __always_inline void note_bystander(struct sock *sk, u32 tgid)
{
	u64 *mark = bystander_at((u64)sk);

	if (mark)
		*mark = bystander_mark(bpf_get_socket_cookie(sk), tgid);
}

/* It is wanted now. Its place is another one's, perhaps: that is only noted again. */
static __always_inline void forget_bystander(struct sock *sk)
{
	u64 *mark = bystander_at((u64)sk);

	if (mark)
		*mark = 0;
}

#endif
