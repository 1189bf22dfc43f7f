/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * Level 2: which connections are recorded event by event, and why. The choice is made when a
 * connection is established (sample, watch list, slow handshake) and where level 1 sees trouble.
 */
#ifndef TRANSOM_AGENT_CHOICE_H
#define TRANSOM_AGENT_CHOICE_H

#include "agent_decision.h"
#include "agent_row.h"
#include "chosen.h"
#include "siphash.h"

/* How much must have been retransmitted for a share of it to say something. */
#define LEAST_RETRANSMITTED 3

/*
 * Connections that user space has chosen by their row, all that a walk has room to show; the next
 * one takes those that are still there, and user space the others away.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, __u32);
} wanted SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tx_agent_choice);
} agent_choice SEC(".maps");

/* What is to be chosen, where level 2 is on. */
static __always_inline const struct tx_agent_choice *choice_now(void)
{
	u32 zero = 0;
	struct tx_agent_choice *choice = bpf_map_lookup_elem(&agent_choice, &zero);

	return choice && choice->on ? choice : NULL;
}

/* However often there is a reason, it is one connection. */
static __always_inline void not_chosen(struct tracked *entry)
{
	if (!entry->not_chosen)
		count(TX_AGENT_NOT_CHOSEN, 1);
	entry->not_chosen = 1;
}

/* A row of its own says what led to the choice. */
static __noinline int choose(struct sock *sk, u32 why, u32 origin)
{
	const struct tx_agent_choice *choice = choice_now();
	struct tracked *entry;
	struct tx_chosen chosen = {.why = why, .origin = origin};

	if (!sk || !choice)
		return 0;
	entry = entry_of(sk);
	if (!entry || !entry->counted || entry->chosen)
		return 0;
	if (!is_below(TX_AGENT_CHOSEN, choice->most)) {
		not_chosen(entry);
		return 0;
	}
	chosen.tgid = entry->tgid;
	__builtin_memcpy(chosen.comm, entry->comm, 16);
	if (!bpf_sk_storage_get(&transom_chosen, sk, &chosen, BPF_SK_STORAGE_GET_F_CREATE)) {
		not_chosen(entry);
		return 0;
	}
	entry->chosen = why;
	count_now(entry, TX_AGENT_CHOSEN, 1);
	count(TX_AGENT_CHOSEN_SO_FAR, 1);
	return 1;
}

/* In trouble: what level 1 has seen of it until now comes with a row. */
static __always_inline void choose_now(struct sock *sk, u32 why)
{
	struct tracked *entry = entry_of(sk);

	if (!choose(sk, why, 0) || !entry)
		return;
	write_recents(sk);
	write_row(sk, entry, TX_ROW_INTERIM, sk->__sk_common.skc_state);
}

/* The connection has ended; the probes still have its last event to write. */
static __always_inline void choice_ended(struct tracked *entry)
{
	if (entry->chosen && !entry->choice_over)
		count_now(entry, TX_AGENT_CHOSEN, -1);
}

static __always_inline void end_choice(struct sock *sk, struct tracked *entry)
{
	struct tx_chosen *chosen = bpf_sk_storage_get(&transom_chosen, sk, NULL, 0);

	if (!chosen || entry->choice_over)
		return;
	chosen->over = TX_CHOSEN_OVER;
	entry->choice_over = 1;
	count_now(entry, TX_AGENT_CHOSEN, -1);
}

struct end {
	u64 high, low;
	u64 port;
};

static __always_inline bool comes_first(const struct end *a, const struct end *b)
{
	if (a->high != b->high)
		return a->high < b->high;
	if (a->low != b->low)
		return a->low < b->low;
	return a->port < b->port;
}

static __always_inline struct end end_at(const __u8 *addr, u16 port)
{
	struct end end = {.port = port};

	__builtin_memcpy(&end.high, addr, 8);
	__builtin_memcpy(&end.low, addr + 8, 8);
	return end;
}

/* The same number at both ends: of their addresses and ports, in one order. */
static __noinline u64 number_of(const struct tx_open *who, u64 key0, u64 key1)
{
	struct end local = end_at(who->local_addr, who->local_port);
	struct end remote = end_at(who->remote_addr, who->remote_port);
	bool local_first = comes_first(&local, &remote);
	struct end *first = local_first ? &local : &remote;
	struct end *second = local_first ? &remote : &local;
	struct siphash hash;

	siphash_begin(&hash, key0, key1);
	siphash_word(&hash, first->high);
	siphash_word(&hash, first->low);
	siphash_word(&hash, second->high);
	siphash_word(&hash, second->low);
	return siphash_end(&hash, first->port | second->port << 16, 36);
}

static __always_inline bool is_in_sample(const struct tx_agent_choice *choice,
					 const struct tx_open *who)
{
	return choice->sample_below &&
	       number_of(who, choice->sample_key[0], choice->sample_key[1]) < choice->sample_below;
}

static __always_inline bool is_watched(const struct tx_watch *watch, u64 cgrp, const u64 *comm,
				       const struct tx_open *who)
{
	const u64 *address = (const void *)who->remote_addr;
	u64 other = ((watch->comm[0] ^ comm[0]) | (watch->comm[1] ^ comm[1])) & watch->comm_mask;

	other |= (watch->address[0] ^ address[0]) & watch->address_mask[0];
	other |= (watch->address[1] ^ address[1]) & watch->address_mask[1];
	other |= (u64)(watch->family ^ who->family) * watch->family_counts;
	other |= (u64)(watch->port ^ who->local_port) * (watch->port ^ who->remote_port) *
		 watch->port_counts;
	if (other)
		return false;
	return !watch->cgroup || in_cgroup(cgrp, watch->cgroup);
}

static __noinline bool is_on_watch_list(struct sock *sk, struct tracked *entry,
					const struct tx_open *who)
{
	const struct tx_agent_choice *choice = choice_now();
	u64 comm[2], cgrp;

	if (!sk || !entry || !who || !choice)
		return false;
	cgrp = (u64)socket_cgroup(sk);
	__builtin_memcpy(comm, entry->comm, sizeof(comm));
	for (u32 i = 0; i < TX_WATCHES; i++) {
		if (i >= choice->watches)
			return false;
		if (is_watched(&choice->watch[i], cgrp, comm, who))
			return true;
	}
	return false;
}

/* A connection that has just been established. */
static __always_inline void choose_new(struct sock *sk, struct tracked *entry)
{
	const struct tx_agent_choice *choice = choice_now();
	u64 handshake = entry->established_ns - entry->begun_ns;
	struct tx_open who;

	if (!choice)
		return;
	read_addresses(&who, sk);
	if (is_in_sample(choice, &who))
		choose(sk, TX_CHOSEN_BY_SAMPLE, entry->origin);
	else if (choice->watches && is_on_watch_list(sk, entry, &who))
		choose(sk, TX_CHOSEN_BY_WATCH, entry->origin);
	else if (choice->handshake_ns && entry->origin == TX_BY_CONNECT &&
		 handshake > choice->handshake_ns)
		choose(sk, TX_CHOSEN_BY_HANDSHAKE, entry->origin);
}

static __always_inline void choose_after_timeout(struct sock *sk, struct tracked *entry)
{
	const struct tx_agent_choice *choice = choice_now();

	if (choice && choice->timeouts && entry->timeouts >= choice->timeouts)
		choose_now(sk, TX_CHOSEN_BY_TIMEOUTS);
}

static __always_inline void choose_after_refusal(struct sock *sk, struct tracked *entry)
{
	const struct tx_agent_choice *choice = choice_now();

	if (entry->refusals < 255)
		entry->refusals++;
	if (choice && choice->refusals && entry->refusals >= choice->refusals)
		choose_now(sk, TX_CHOSEN_BY_DEVICE);
}

static __always_inline void choose_after_retransmission(struct sock *sk, struct tcp_sock *tp)
{
	const struct tx_agent_choice *choice = choice_now();
	u64 retransmitted = tp->total_retrans;

	if (choice && choice->retransmitted_ppm && retransmitted >= LEAST_RETRANSMITTED &&
	    retransmitted * 1000000 > (u64)tp->data_segs_out * choice->retransmitted_ppm)
		choose_now(sk, TX_CHOSEN_BY_RETRANSMITTED);
}

/* The kernel's times of waiting, and what needs no segment to be seen. */
static __always_inline void choose_on_walk(struct sock *sk, struct tracked *entry,
					   struct tcp_sock *tp)
{
	const struct tx_agent_choice *choice = choice_now();
	u64 cookie = bpf_get_socket_cookie(sk);
	struct waiting waiting;
	struct tx_open who;

	if (!choice || (entry->chosen && entry->chosen != TX_CHOSEN_BY_WATCH))
		return;
	read_addresses(&who, sk);
	if (entry->chosen) {
		if (!is_on_watch_list(sk, entry, &who))
			end_choice(sk, entry);
		return;
	}
	if (choice->watches && is_on_watch_list(sk, entry, &who)) {
		choose_now(sk, TX_CHOSEN_BY_WATCH);
		return;
	}
	if (bpf_map_lookup_elem(&wanted, &cookie)) {
		bpf_map_delete_elem(&wanted, &cookie);
		choose_now(sk, TX_CHOSEN_BY_CONDITION);
		return;
	}
	waiting = waiting_of(tp);
	if (choice->peer_limited_ppm && waiting.busy >= choice->least_busy &&
	    (u64)waiting.rwnd * 1000000 > (u64)waiting.busy * choice->peer_limited_ppm)
		choose_now(sk, TX_CHOSEN_BY_PEER);
}

/* For conditions that user space evaluates: what moved since the last look. */
static __always_inline bool wants_snapshot(struct tracked *entry, struct tcp_sock *tp)
{
	const struct tx_agent_choice *choice = choice_now();
	u32 bytes = moved(tp);

	if (!choice || !choice->snapshots || entry->chosen || entry->looked_bytes == bytes ||
	    !has_room_for_walk())
		return false;
	if (entry->not_chosen && !is_below(TX_AGENT_CHOSEN, choice->most))
		return false;
	entry->looked_bytes = bytes;
	return true;
}

#endif
