/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * Rare decisions: a record for each, the last 16 in the socket's storage, and the settings that
 * change without a probe.
 */
#ifndef TRANSOM_AGENT_DECISION_H
#define TRANSOM_AGENT_DECISION_H

#include "agent_entry.h"
#include "state.h"
#include "tuned.h"

/* Not inlined, for the BTF of its type: see read_counters() in agent_row.h. */
static __noinline void read_decided(struct tx_decision *decision, struct tcp_sock *tp)
{
	decision->cwnd = tp->snd_cwnd;
	decision->ssthresh = tp->snd_ssthresh;
	decision->packets_out = tp->packets_out;
	decision->sacked_out = tp->sacked_out;
	decision->lost_out = tp->lost_out;
	decision->retransmitted = tp->total_retrans;
	decision->srtt_us = tp->srtt_us >> 3;
	decision->rto = tp->inet_conn.icsk_rto;
}

static __always_inline struct recents *recents_of(struct sock *sk, const struct tracked *entry)
{
	struct tx_agent_orders *orders;
	struct recents *recents;

	recents = bpf_sk_storage_get(&recent, sk, NULL, 0);
	if (recents)
		return recents;
	orders = orders_now();
	if (!orders || !is_below(TX_AGENT_RECENT, orders->most / TX_RECENT_SHARE + 1))
		return NULL;
	recents = bpf_sk_storage_get(&recent, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (recents)
		count_now(entry, TX_AGENT_RECENT, 1);
	return recents;
}

static __always_inline void keep_recent(struct sock *sk, struct tracked *entry,
					const struct tx_decision *decision)
{
	struct recents *recents = recents_of(sk, entry);
	struct tx_recent *slot;
	u32 value;

	if (!recents)
		return;
	entry->recents = 1;
	value = decision->decision == TX_DECIDED_STATE ? decision->cwnd : decision->value;
	slot = &recents->last[recents->number++ & (TX_RECENT - 1)];
	slot->time = decision->time_ns >> TX_RECENT_SHIFT;
	slot->decision = decision->decision;
	slot->states = decision->before | decision->now << 4;
	slot->value = value < 65535 ? value : 65535;
}

/* Not inlined, for the BTF of its type: see read_counters() in agent_row.h. */
static __noinline void read_recents(struct tx_recents *record, const struct recents *from)
{
	record->kind = TX_ROW_RECENT;
	__builtin_memset(record->reserved, 0, sizeof(record->reserved));
	record->number = from->number;
	__builtin_memcpy(record->last, from->last, sizeof(record->last));
}

/* What led to the record that is written next. */
static __noinline int write_recents(struct sock *sk)
{
	struct tx_recents *record;
	struct recents *recents;

	if (!sk)
		return 0;
	recents = bpf_sk_storage_get(&recent, sk, NULL, 0);
	if (!recents)
		return 0;
	record = bpf_ringbuf_reserve(&rows, sizeof(*record), 0);
	if (!record)
		return 0;
	read_recents(record, recents);
	record->cookie = bpf_get_socket_cookie(sk);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

static __always_inline void forget_recents(struct sock *sk, const struct tracked *entry)
{
	if (!bpf_sk_storage_delete(&recent, sk))
		count_now(entry, TX_AGENT_RECENT, -1);
}

static __noinline int write_decision(struct sock *sk, u32 what, u32 states, u32 value)
{
	const struct tcp_congestion_ops *ops;
	struct tx_decision *decision;
	struct tracked *entry;
	struct tcp_sock *tp;

	if (!sk)
		return 0;
	entry = entry_of(sk);
	tp = bpf_skc_to_tcp_sock(sk);
	if (!entry || !tp)
		return 0;
	decision = bpf_ringbuf_reserve(&rows, sizeof(*decision), 0);
	if (!decision) {
		count(TX_AGENT_LOST_DECISIONS, 1);
		return 0;
	}
	decision->kind = TX_ROW_DECISION;
	decision->decision = what;
	decision->before = states & 15;
	decision->now = states >> 4;
	decision->tgid = entry->tgid;
	decision->time_ns = bpf_ktime_get_boot_ns();
	decision->cookie = bpf_get_socket_cookie(sk);
	read_decided(decision, tp);
	decision->local_port = __builtin_bswap16(tp->inet_conn.icsk_inet.inet_sport);
	decision->remote_port = __builtin_bswap16(sk->__sk_common.skc_dport);
	decision->value = value;
	__builtin_memset(decision->algorithm, 0, 16);
	ops = tp->inet_conn.icsk_ca_ops;
	if (what == TX_DECIDED_ALGORITHM && ops)
		bpf_probe_read_kernel_str(decision->algorithm, 16, &ops->name);
	if (entry->counted)
		keep_recent(sk, entry, decision);
	bpf_ringbuf_submit(decision, wake());
	return 0;
}

static __always_inline u32 unchanged(struct tcp_sock *tp)
{
	return BPF_CORE_READ_BITFIELD(tp, inet_conn.icsk_ca_state) * 0x11;
}

/* What the receive buffer has room for (tcp_win_from_space()). */
static __always_inline u32 window_of_buffer(struct tcp_sock *tp)
{
	u32 space = tp->inet_conn.icsk_inet.sk.sk_rcvbuf;

	if (bpf_core_field_exists(tp->scaling_ratio))
		return ((u64)space * tp->scaling_ratio) >> 8;
	return space / 2;
}

static __always_inline void notice_tuned(struct sock *sk, struct tracked *entry, u32 states)
{
	struct tx_tuned *tuned = new_action(sk, &entry->actions, &entry->action);

	if (tuned)
		write_decision(sk, TX_DECIDED_TUNED, states, tuned->wish.reason);
}

/*
 * Settings that programs change between our probes: no tracepoint tells of them, so they are
 * compared whenever we look at the connection anyway. The kernel moves the window clamp with
 * what the receive buffer has room for: one far below that is a program's.
 */
static __noinline int notice_changes(struct sock *sk, struct tracked *entry)
{
	struct tx_agent_orders *orders = orders_now();
	u32 clamp, window, states;
	struct tcp_sock *tp;
	u64 algorithm;
	bool first;

	if (!sk || !entry || !orders || !orders->causes)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	first = !entry->algorithm;
	states = unchanged(tp);
	clamp = tp->snd_cwnd_clamp;
	window = tp->window_clamp;
	algorithm = (u64)tp->inet_conn.icsk_ca_ops;
	if (!first)
		notice_tuned(sk, entry, states);
	if (algorithm != entry->algorithm && !first)
		write_decision(sk, TX_DECIDED_ALGORITHM, states, 0);
	if (clamp != entry->clamp && !first)
		write_decision(sk, TX_DECIDED_CLAMP, states, clamp);
	if (window < entry->window_clamp && !first && window < window_of_buffer(tp) / 2)
		write_decision(sk, TX_DECIDED_WINDOW, states, window);
	entry->algorithm = algorithm;
	entry->clamp = clamp;
	entry->window_clamp = window;
	return 0;
}

#endif
