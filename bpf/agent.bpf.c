/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * The agent: one record for each connection, from what the kernel counts anyway. Level 0
 * is one probe that fires when a connection changes its state; level 1 adds the probes of
 * rare decisions. Nothing here runs per segment.
 */
#include "agent.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "ack.h"
#include "holder.h"
#include "state.h"
#include "tuned.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

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
	u8 listener;
	char comm[16];
	u8 rtt[TX_RTT_BUCKETS];
	u64 algorithm; /* address of the tcp_congestion_ops last seen */
	u32 clamp;
	u32 window_clamp;
	u32 actions; /* of the whole machine, when we last looked */
	u32 action;  /* the last one we told */
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

static __always_inline void count(u32 what, s64 by)
{
	u64 *value = bpf_map_lookup_elem(&agent_counts, &what);

	if (value)
		__sync_fetch_and_add(value, by);
}

/* tcp_sock.ecn_flags: ECN of either kind was agreed on (RFC 3168; AccECN from 6.18). */
#define TX_ECN_AGREED 0x11

static __always_inline struct tx_agent_orders *orders_now(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&agent_orders, &zero);
}

static __always_inline bool room_for_another(void)
{
	u32 what = TX_AGENT_TRACKED;
	struct tx_agent_orders *orders = orders_now();
	u64 *now = bpf_map_lookup_elem(&agent_counts, &what);

	return orders && now && *now < orders->most;
}

/* The reader looks by itself every now and then: it is woken only when the ring fills. */
static __always_inline u64 wake(void)
{
	return bpf_ringbuf_query(&rows, BPF_RB_AVAIL_DATA) > TX_AGENT_RING / 4 ? BPF_RB_FORCE_WAKEUP
									       : BPF_RB_NO_WAKEUP;
}

static __always_inline struct tracked *entry_of(struct sock *sk)
{
	return bpf_sk_storage_get(&tracked, sk, NULL, 0);
}

static __always_inline struct tracked *new_entry(struct sock *sk, bool is_listener)
{
	struct tracked *entry = entry_of(sk);

	if (entry)
		return entry;
	if (is_listener || room_for_another())
		entry = bpf_sk_storage_get(&tracked, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!entry)
		count(TX_AGENT_UNTRACKED, 1);
	return entry;
}

static __always_inline void set_program(struct tracked *entry)
{
	entry->tgid = bpf_get_current_pid_tgid() >> 32;
	bpf_get_current_comm(entry->comm, sizeof(entry->comm));
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
	if (orders && orders->causes && origin != TX_FROM_BEFORE)
		entry->flags = TX_CAUSES_KNOWN;
	count(TX_AGENT_TRACKED, 1);
}

/* Halves of doublings: the second highest bit says which. */
static __always_inline u32 rtt_bucket(u32 us)
{
	u32 log = 0, x = us >> TX_RTT_FIRST_SHIFT;

	if (!x)
		return 0;
	for (u32 i = 16; i; i >>= 1) {
		if (x >> i) {
			x >>= i;
			log += i;
		}
	}
	x = us >> (log + TX_RTT_FIRST_SHIFT - 1);
	log = 1 + 2 * log + (x & 1);
	return log < TX_RTT_BUCKETS ? log : TX_RTT_BUCKETS - 1;
}

/* What changes between two rows and the kernel keeps only the last value of. */
static __always_inline void sample(struct tracked *entry, struct tcp_sock *tp)
{
	u32 cwnd = tp->snd_cwnd, rtt = tp->srtt_us >> 3, bucket;

	if (cwnd > entry->cwnd_max)
		entry->cwnd_max = cwnd;
	if (!rtt)
		return;
	bucket = rtt_bucket(rtt) & (TX_RTT_BUCKETS - 1);
	if (entry->rtt[bucket] < 255)
		entry->rtt[bucket]++;
}

static __always_inline u64 moved(struct tcp_sock *tp)
{
	return tp->bytes_acked + tp->bytes_received;
}

/* The kernel adds a period to its statistics when it ends; the one that goes on is ours to add. */
static __always_inline void read_chrono(struct tx_row *row, struct tcp_sock *tp)
{
	u32 type = BPF_CORE_READ_BITFIELD(tp, chrono_type) & 3;
	u32 since = (u32)bpf_jiffies64() - tp->chrono_start;

	row->busy = tp->chrono_stat[0];
	row->rwnd = tp->chrono_stat[1];
	row->sndbuf = tp->chrono_stat[2];
	if (type == 1)
		row->busy += since;
	else if (type == 2)
		row->rwnd += since;
	else if (type == 3)
		row->sndbuf += since;
	row->busy += row->rwnd + row->sndbuf;
}

/* Not inlined, so that the object's BTF has the record's type, which a test compares. */
static __noinline void read_counters(struct tx_row *row, struct tcp_sock *tp)
{
	row->bytes_sent = tp->bytes_sent;
	row->bytes_acked = tp->bytes_acked;
	row->bytes_received = tp->bytes_received;
	row->bytes_retrans = tp->bytes_retrans;
	row->segs_out = tp->segs_out;
	row->segs_in = tp->segs_in;
	row->data_segs_out = tp->data_segs_out;
	row->data_segs_in = tp->data_segs_in;
	row->retransmitted = tp->total_retrans;
	row->dsack_dups = tp->dsack_dups;
	row->reord_seen = tp->reord_seen;
	row->rcv_ooopack = tp->rcv_ooopack;
	row->delivered = tp->delivered;
	row->delivered_ce = tp->delivered_ce;
	row->srtt_us = tp->srtt_us >> 3;
	row->mdev_us = tp->mdev_us >> 2;
	row->min_rtt_us = tp->rtt_min.s[0].v;
	row->cwnd = tp->snd_cwnd;
	row->ssthresh = tp->snd_ssthresh;
	row->max_window = tp->max_window;
	row->mss = tp->mss_cache;
	row->unsent = tp->write_seq - tp->snd_una;
	row->ca_state = BPF_CORE_READ_BITFIELD(tp, inet_conn.icsk_ca_state);
}

static __always_inline void read_who(struct tx_row *row, struct sock *sk, struct tcp_sock *tp)
{
	const struct tcp_congestion_ops *ops = tp->inet_conn.icsk_ca_ops;
	struct cgroup *cgrp = socket_cgroup(sk);
	struct tx_open ends;

	read_whereabouts(&ends, sk);
	row->family = ends.family;
	__builtin_memcpy(row->local_addr, ends.local_addr, 16);
	__builtin_memcpy(row->remote_addr, ends.remote_addr, 16);
	/* When a connection ends, its port has been given back already. */
	row->local_port = __builtin_bswap16(tp->inet_conn.icsk_inet.inet_sport);
	row->remote_port = ends.remote_port;
	row->netns = ends.netns;
	row->ifindex = ends.ifindex;
	row->cgroup = cgrp ? BPF_CORE_READ(cgrp, kn, id) : 0;
	row->mptcp = mptcp_token(tp);
	__builtin_memset(row->algorithm, 0, 16);
	if (ops)
		bpf_probe_read_kernel_str(row->algorithm, 16, &ops->name);
}

static __noinline int write_row(struct sock *sk, struct tracked *entry, u32 kind, u32 state)
{
	struct tcp_sock *tp;
	struct tx_row *row;

	if (!sk || !entry)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	row = bpf_ringbuf_reserve(&rows, sizeof(*row), 0);
	if (!row) {
		count(TX_AGENT_LOST_ROWS, 1);
		return 0;
	}
	row->kind = kind;
	row->origin = entry->origin;
	row->flags = entry->flags;
	row->state = state;
	row->error = sk->sk_err;
	row->tgid = entry->tgid;
	row->reserved = 0;
	row->time_ns = bpf_ktime_get_boot_ns();
	row->cookie = bpf_get_socket_cookie(sk);
	row->begun_ns = entry->begun_ns;
	row->established_ns = entry->established_ns;
	__builtin_memcpy(row->comm, entry->comm, 16);
	row->by_recovery = entry->by_recovery;
	row->by_timeout = entry->by_timeout;
	row->by_probe = entry->by_probe;
	row->timeouts = entry->timeouts;
	if (bpf_core_field_exists(tp->total_rto) && !(entry->flags & TX_CAUSES_KNOWN))
		row->timeouts = tp->total_rto;
	row->cwnd_max = entry->cwnd_max;
	__builtin_memcpy(row->rtt, entry->rtt, TX_RTT_BUCKETS);
	read_who(row, sk, tp);
	read_counters(row, tp);
	read_chrono(row, tp);
	bpf_ringbuf_submit(row, wake());
	return 0;
}

/* Not inlined: see read_counters. */
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

static __always_inline struct recents *recents_of(struct sock *sk)
{
	u32 what = TX_AGENT_RECENT;
	struct tx_agent_orders *orders;
	struct recents *recents;
	u64 *now;

	recents = bpf_sk_storage_get(&recent, sk, NULL, 0);
	if (recents)
		return recents;
	orders = orders_now();
	now = bpf_map_lookup_elem(&agent_counts, &what);
	if (!orders || !now || *now > orders->most / TX_RECENT_SHARE)
		return NULL;
	recents = bpf_sk_storage_get(&recent, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (recents)
		count(TX_AGENT_RECENT, 1);
	return recents;
}

static __always_inline void keep_recent(struct sock *sk, const struct tx_decision *decision)
{
	struct recents *recents = recents_of(sk);
	struct tx_recent *slot;
	u32 value;

	if (!recents)
		return;
	value = decision->decision == TX_DECIDED_STATE ? decision->cwnd : decision->value;
	slot = &recents->last[recents->number++ & (TX_RECENT - 1)];
	slot->time = decision->time_ns >> TX_RECENT_SHIFT;
	slot->decision = decision->decision;
	slot->states = decision->before | decision->now << 4;
	slot->value = value < 65535 ? value : 65535;
}

/* Not inlined: see read_counters. */
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

static __always_inline void forget_recents(struct sock *sk)
{
	if (bpf_sk_storage_get(&recent, sk, NULL, 0)) {
		bpf_sk_storage_delete(&recent, sk);
		count(TX_AGENT_RECENT, -1);
	}
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
		keep_recent(sk, decision);
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

/* What transom did to this connection: one look at a counter unless it did something somewhere. */
static __always_inline void notice_tuned(struct sock *sk, struct tracked *entry, u32 states)
{
	u32 zero = 0, *actions = bpf_map_lookup_elem(&transom_actions, &zero);
	struct tx_tuned *tuned;

	if (!actions || *actions == entry->actions)
		return;
	entry->actions = *actions;
	tuned = bpf_sk_storage_get(&transom_tuned, sk, NULL, 0);
	if (!tuned || tuned->action == entry->action)
		return;
	entry->action = tuned->action;
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
	write_recents(sk);
	write_row(sk, entry, failed ? TX_ROW_FAILED : TX_ROW_END, old);
	entry->counted = 0;
	forget_recents(sk);
	count(TX_AGENT_TRACKED, -1);
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
	if (new != TCP_SYN_RECV)
		set_program(entry);
	entry->listener = new == TCP_LISTEN;
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

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(state_changed, struct sock *sk, int old, int new)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct tracked *entry;

	if (!tp)
		return 0;
	if (new == TCP_LISTEN || new == TCP_SYN_SENT || new == TCP_SYN_RECV) {
		begins(sk, tp, new);
	} else if (new == TCP_ESTABLISHED) {
		entry = entry_of(sk);
		if (!entry)
			return 0;
		entry->established_ns = bpf_ktime_get_boot_ns();
		/* SYN-ACKs are retransmitted by the timer, before there is a socket. */
		if (entry->origin == TX_BY_ACCEPT)
			entry->by_timeout += fresh_retransmissions(entry, tp);
		notice_changes(sk, entry);
	} else if (new == TCP_CLOSE && old != TCP_LISTEN) {
		ended(sk, tp, old);
	}
	return 0;
}

/*
 * tcp_enter_cwr() is called for a mark of congestion, at the end of a tail loss probe, and when
 * the device or its queue refused a segment. Only the last is left without ECN and without a probe.
 */
static __always_inline bool is_local(struct tcp_sock *tp, u8 before, u8 now)
{
	return now == TCP_CA_CWR && before < TCP_CA_CWR && !(tp->ecn_flags & TX_ECN_AGREED) &&
	       !tp->tlp_high_seq;
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
		entry->timeouts++;
		if (rto_cause(tp->inet_conn.icsk_pending,
			      BPF_CORE_READ_BITFIELD(tp, is_sack_reneg)) == TX_RTO_TIMER) {
			what = TX_DECIDED_TIMEOUT;
			value = tp->inet_conn.icsk_retransmits + 1;
		}
	} else if (is_local(tp, before, now)) {
		what = TX_DECIDED_LOCAL;
	}
	/* Disorder comes and goes with each reordered segment; what it leads to is told. */
	if (what == TX_DECIDED_STATE && (now == before || now == TCP_CA_Disorder ||
					 (now == TCP_CA_Open && before == TCP_CA_Disorder)))
		return 0;
	sample(entry, tp);
	notice_changes(sk, entry);
	write_decision(sk, what, before | now << 4, value);
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
	if (tcp_state == TCP_SYN_SENT || tcp_state == TCP_SYN_RECV) {
		entry->by_timeout += fresh;
		write_decision(sk, TX_DECIDED_SYN, state * 0x11, tp->total_retrans);
	} else if (state == TCP_CA_Loss) {
		entry->by_timeout += fresh;
	} else if (state == TCP_CA_Recovery) {
		entry->by_recovery += fresh;
	} else {
		entry->by_probe += fresh;
		write_decision(sk, TX_DECIDED_PROBE, state * 0x11, 0);
	}
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
	struct sock *sk = tcp_socket_of(ctx);
	struct tracked *entry;

	if (!sk || !task)
		return 0;
	entry = new_entry(sk, true);
	if (!entry || entry->tgid)
		return 0;
	entry->tgid = task->tgid;
	bpf_probe_read_kernel(entry->comm, 16, task->group_leader->comm);
	return 0;
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
	if (state == TCP_LISTEN || state == TCP_CLOSE)
		return 0;
	entry = new_entry(sk, false);
	if (!entry)
		return 0;
	if (!entry->counted) {
		take_in(entry, TX_FROM_BEFORE);
		entry->begun_ns = 0;
	}
	sample(entry, tp);
	notice_changes(sk, entry);
	if (moved(tp) == entry->reported_bytes ||
	    !due(entry, bpf_get_socket_cookie(sk), orders->interim_ns))
		return 0;
	write_recents(sk);
	write_row(sk, entry, TX_ROW_INTERIM, state);
	entry->reported_ns = bpf_ktime_get_boot_ns();
	entry->reported_bytes = moved(tp);
	return 0;
}
