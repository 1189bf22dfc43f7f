/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * The agent: one record for each connection, from what the kernel counts anyway. Level 0
 * is one probe that fires when a connection changes its state; level 1 adds the probes of
 * rare decisions. Nothing here runs per segment.
 */
#include "agent.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "agent_choice.h"
#include "agent_decision.h"
#include "agent_row.h"
#include "holder.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

static __always_inline void ended(struct sock *sk, struct tcp_sock *tp, int old)
{
	struct tracked *entry = entry_of(sk);
	bool failed = old == TCP_SYN_SENT || old == TCP_SYN_RECV;

	if (!entry || !entry->counted)
		return;
	if (!failed) {
		sample(entry, tp);
		notice_changes(sk, entry);
	}
	if (entry->origin != TX_BY_ACCEPT || !is_spare(sk, tp, old)) {
		if (entry->recents)
			write_recents(sk);
		write_row(sk, entry, failed ? TX_ROW_FAILED : TX_ROW_END, old);
	}
	choice_ended(entry);
	if (entry->recents)
		forget_recents(sk, entry);
	count_now(entry, TX_AGENT_TRACKED, -1);
	entry->counted = 0;
}

/* connect() and listen() run in the process whose socket it is. */
static __always_inline void begins(struct sock *sk, struct tcp_sock *tp, int new)
{
	struct tx_agent_orders *orders = orders_now();
	bool decides = orders && orders->causes;
	struct tracked *entry;

	if (new == TCP_SYN_RECV && !room_for_another()) {
		count(TX_AGENT_UNTRACKED, 1);
		bpf_sk_storage_delete(&tracked, sk);
		return;
	}
	entry = new_entry(sk, new == TCP_LISTEN);
	if (!entry)
		return;
	if (new == TCP_LISTEN)
		read_current_process(&entry->tgid, entry->comm);
	else if (new == TCP_SYN_SENT)
		read_connecting_process(&entry->tgid, entry->comm, tp);
	/* The same socket connects again. */
	if (entry->chosen)
		bpf_sk_storage_delete(&transom_chosen, sk);
	if (new != TCP_LISTEN)
		take_in(entry, new == TCP_SYN_SENT ? TX_BY_CONNECT : TX_BY_ACCEPT);
	/* connect() gives it a value later, unless the program has. */
	if (decides && new == TCP_SYN_SENT && tp->window_clamp)
		write_decision(sk, TX_DECIDED_WINDOW, 0, tp->window_clamp);
}

/* A segment that was retransmitted may be several on the wire (GSO): the kernel's count says how many. */
static __always_inline u32 fresh_retransmissions(struct tracked *entry, struct tcp_sock *tp)
{
	u32 total = tp->total_retrans, fresh = total - entry->retransmitted;

	entry->retransmitted = total;
	return fresh;
}

static __always_inline bool is_between_fins(int state)
{
	return state != TCP_SYN_SENT && state != TCP_SYN_RECV && state != TCP_ESTABLISHED &&
	       state != TCP_LISTEN && state != TCP_CLOSE;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(state_changed, struct sock *sk, int old, int new)
{
	struct tracked *entry;
	struct tcp_sock *tp;

	/* Half of the changes are between the two FINs, where nothing is to be written. */
	if (is_between_fins(new))
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	if (new == TCP_LISTEN || new == TCP_SYN_SENT || new == TCP_SYN_RECV) {
		/* Both ends have sent a SYN: it began with this end's. */
		if (old != TCP_SYN_SENT)
			begins(sk, tp, new);
	} else if (new == TCP_ESTABLISHED) {
		entry = entry_of(sk);
		if (!entry)
			return 0;
		entry->established_ns = bpf_ktime_get_boot_ns();
		note_handshake(entry, tp);
		/* SYN-ACKs are retransmitted by the timer, before there is a socket. */
		if (entry->origin == TX_BY_ACCEPT)
			entry->by_timeout += fresh_retransmissions(entry, tp);
		notice_changes(sk, entry);
		choose_new(sk, entry);
	} else if (new == TCP_CLOSE && old != TCP_LISTEN) {
		ended(sk, tp, old);
	}
	return 0;
}

/*
 * CWR is entered for a mark of congestion, at the end of a tail loss probe, and when the device or
 * its queue refused a segment. Only the last is left without ECN and without a probe.
 */
static __always_inline bool is_local(const struct tracked *entry, struct tcp_sock *tp, u8 before,
				     u8 now)
{
	return now == TCP_CA_CWR && before < TCP_CA_CWR && !ecn_agreed(tp) &&
	       !has_repaired_tail(&entry->tail, tp);
}

/* Level 1: the congestion state, just before it changes. */
SEC("tp_btf/tcp_cong_state_set")
int BPF_PROG(state_decided, struct sock *sk, u8 now)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct tracked *entry = tp ? entry_of(sk) : NULL;
	u32 what = TX_DECIDED_STATE, value = 0;
	u8 before;

	if (!entry)
		return 0;
	before = BPF_CORE_READ_BITFIELD(tp, inet_conn.icsk_ca_state);
	if (now == TCP_CA_Loss) {
		entry->no_timer = rto_cause(before, tp->inet_conn.icsk_pending,
					    BPF_CORE_READ_BITFIELD(tp, is_sack_reneg),
					    tp->inet_conn.icsk_retransmits,
					    &entry->reneging_told) != TX_RTO_TIMER;
		if (!entry->no_timer) {
			entry->timeouts++;
			what = TX_DECIDED_TIMEOUT;
			value = tp->inet_conn.icsk_retransmits + 1;
		}
	} else if (is_local(entry, tp, before, now)) {
		what = TX_DECIDED_LOCAL;
	}
	changed_state(&entry->tail, now);
	/* Disorder comes and goes with each reordered segment; what it leads to is told. */
	if (what == TX_DECIDED_STATE && (now == before || now == TCP_CA_Disorder ||
					 (now == TCP_CA_Open && before == TCP_CA_Disorder)))
		return 0;
	sample(entry, tp);
	notice_changes(sk, entry);
	write_decision(sk, what, before | now << 4, value);
	if (what == TX_DECIDED_TIMEOUT)
		choose_after_timeout(sk, entry);
	else if (what == TX_DECIDED_LOCAL)
		choose_after_refusal(sk, entry);
	return 0;
}

/* Level 1: each retransmission by its cause; a tail loss probe is a decision of its own. */
SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(retransmitted, struct sock *sk)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct tracked *entry = tp ? entry_of(sk) : NULL;
	u8 state, tcp_state;
	u32 fresh;

	if (!entry)
		return 0;
	state = BPF_CORE_READ_BITFIELD(tp, inet_conn.icsk_ca_state);
	tcp_state = sk->__sk_common.skc_state;
	fresh = fresh_retransmissions(entry, tp);
	/* Since 6.17 attempts that came to nothing are traced, too (commit ad892e912b84). */
	if (!fresh)
		return 0;
	if (tcp_state == TCP_SYN_SENT || tcp_state == TCP_SYN_RECV) {
		entry->by_timeout += fresh;
		write_decision(sk, TX_DECIDED_SYN, state * 0x11, tp->total_retrans);
	} else if (state == TCP_CA_Loss && !entry->no_timer) {
		entry->by_timeout += fresh;
	} else if (state == TCP_CA_Recovery) {
		entry->by_recovery += fresh;
	} else {
		entry->by_probe += fresh;
		if (state != TCP_CA_Loss) {
			probed_tail(&entry->tail, tp);
			write_decision(sk, TX_DECIDED_PROBE, state * 0x11, 0);
		}
	}
	choose_after_retransmission(sk, tp);
	return 0;
}

SEC("tp_btf/tcp_receive_reset")
int BPF_PROG(reset_received, struct sock *sk)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct tracked *entry = tp ? entry_of(sk) : NULL;

	if (!entry)
		return 0;
	entry->flags |= TX_RESET_RECEIVED;
	write_decision(sk, TX_DECIDED_RESET, unchanged(tp), 0);
	return 0;
}

/* A reset for a port nobody listens on has no connection. */
SEC("tp_btf/tcp_send_reset")
int BPF_PROG(reset_sent, struct sock *sk)
{
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : NULL;

	if (tp && sk->__sk_common.skc_state != TCP_LISTEN)
		write_decision(sk, TX_DECIDED_RESET_SENT, unchanged(tp), 0);
	return 0;
}

/* Who holds what was there before the agent. */
SEC("iter/task_file")
int earlier_programs(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct sock *sk = socket_of(ctx);
	struct tracked *entry;
	u8 state;

	if (!sk || !task)
		return 0;
	if (!bpf_skc_to_tcp_sock(sk)) {
		found_mptcp_holder(sk, task);
		return 0;
	}
	state = sk->__sk_common.skc_state;
	if (state == TCP_CLOSE)
		return 0;
	entry = entry_if_room(sk, state == TCP_LISTEN);
	if (!entry)
		return 0;
	if (state != TCP_LISTEN && !entry->counted)
		take_in_from_before(entry);
	if (entry->tgid)
		return 0;
	entry->tgid = task->tgid;
	read_process_name(entry->comm, task);
	return 0;
}

/* Nobody holds a subflow itself. Its children get the program of one that listens. */
static __always_inline void earlier_subflow(struct sock *sk, struct tcp_sock *tp, u8 state)
{
	struct tracked *entry;

	if (!mptcp_key(tp))
		return;
	entry = entry_if_room(sk, state == TCP_LISTEN);
	if (!entry || entry->tgid)
		return;
	read_process_of_subflow(&entry->tgid, entry->comm, tp);
}

static __always_inline bool due(const struct tracked *entry, u64 cookie, u64 interval)
{
	u64 now = bpf_ktime_get_boot_ns(), phase;

	if (!interval)
		return false;
	/* Each connection has its own moment within the interval, so that they do not come at once. */
	phase = (cookie * 0x9e3779b97f4a7c15ULL) % interval;
	return (now + phase) / interval != (entry->reported_ns + phase) / interval;
}

/* What was there before the agent is taken in by its first look, before anything is counted anew. */
static __always_inline bool is_first_look(const struct tx_agent_orders *orders)
{
	return !orders->recount;
}

/* Every few seconds, in each network namespace: samples, and rows of connections that go on. */
SEC("iter/tcp")
int look(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	struct tx_agent_orders *orders;
	struct tracked *entry;
	struct tcp_sock *tp;
	struct sock *sk;
	u8 state;

	if (!skc)
		return 0;
	tp = bpf_skc_to_tcp_sock(skc);
	orders = orders_now();
	if (!tp || !orders)
		return 0;
	sk = (struct sock *)tp;
	state = tp->inet_conn.icsk_inet.sk.__sk_common.skc_state;
	if (state == TCP_CLOSE)
		return 0;
	if (is_first_look(orders))
		earlier_subflow(sk, tp, state);
	if (state == TCP_LISTEN)
		return 0;
	entry = entry_if_room(sk, false);
	if (!entry) {
		if (is_first_look(orders))
			count(TX_AGENT_UNTRACKED, 1);
		return 0;
	}
	if (!entry->counted)
		take_in_from_before(entry);
	sample(entry, tp);
	note_least_rtt(entry, tp);
	notice_changes(sk, entry);
	choose_on_walk(sk, entry, tp);
	if (wants_snapshot(entry, tp))
		write_row(sk, entry, TX_ROW_SNAPSHOT, state);
	if (moved(tp) == entry->reported_bytes ||
	    !due(entry, bpf_get_socket_cookie(sk), orders->interim_ns) || !has_room_for_walk())
		return 0;
	write_recents(sk);
	write_row(sk, entry, TX_ROW_INTERIM, state);
	entry->reported_ns = bpf_ktime_get_boot_ns();
	entry->reported_bytes = moved(tp);
	return 0;
}

/* Where the kernel's buffer is full, it is read first and then comes here again. */
static __always_inline bool is_said(struct seq_file *seq, struct sock *sk)
{
	u64 cookie = bpf_get_socket_cookie(sk);

	return bpf_seq_write(seq, &cookie, sizeof(cookie)) == 0;
}

/*
 * After each look: what is remembered, in all network namespaces, without entering any. The end of
 * one that is closed and still counted was skipped.
 */
SEC("iter/bpf_sk_storage_map")
int recount(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct tx_agent_orders *orders = orders_now();
	struct tracked *entry = ctx->value;
	struct sock *sk = ctx->sk;

	if (!orders || !entry || !entry->counted || !sk || sk->__sk_common.skc_state == TCP_CLOSE)
		return 0;
	if (orders->roll_call && !is_counted_anew(entry, orders) && !is_said(ctx->meta->seq, sk))
		return 0;
	count_anew(entry, orders);
	return 0;
}
