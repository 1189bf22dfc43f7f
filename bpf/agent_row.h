/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/* One record per connection, from what the kernel counts anyway. */
#ifndef TRANSOM_AGENT_ROW_H
#define TRANSOM_AGENT_ROW_H

#include "ack.h"
#include "agent_entry.h"
#include "state.h"

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

/* Where a bucket is full, all lose half, so that they keep their shares and what is new counts. */
static __noinline int fade(struct tracked *entry)
{
	u64 *words;

	if (!entry)
		return 0;
	words = (u64 *)entry->rtt;
	for (u32 i = 0; i < TX_RTT_BUCKETS / 8; i++)
		words[i] = words[i] >> 1 & 0x7f7f7f7f7f7f7f7f;
	return 0;
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
	if (entry->rtt[bucket] == 255)
		fade(entry);
	entry->rtt[bucket]++;
}

static __always_inline void note_least_rtt(struct tracked *entry, struct tcp_sock *tp)
{
	u32 least = tp->rtt_min.s[0].v;

	if (!entry->least_rtt || least < entry->least_rtt)
		entry->least_rtt = least;
}

/* Without level 1 the kernel's own count is all there is, from Linux 6.7 on. */
static __always_inline u32 timeouts_of(const struct tracked *entry, struct tcp_sock *tp)
{
	if (bpf_core_field_exists(tp->total_rto) && !(entry->flags & TX_CAUSES_KNOWN))
		return tp->total_rto;
	return entry->timeouts;
}

/*
 * What a SYN, or the answer to one, has cost until now. Its timer brings a connection into Loss,
 * too. An accepted one has its SYN-ACK's count from the request (num_timeout).
 */
static __always_inline void note_handshake(struct tracked *entry, struct tcp_sock *tp)
{
	u32 timeouts = timeouts_of(entry, tp);

	entry->syn_retransmitted = tp->total_retrans < 255 ? tp->total_retrans : 255;
	entry->syn_timeouts = timeouts < 255 ? timeouts : 255;
}

static __always_inline u64 moved(struct tcp_sock *tp)
{
	return tp->bytes_acked + tp->bytes_received;
}

/* tcp_sock.chrono_stat, jiffies; rwnd and sndbuf are parts of busy. */
struct waiting {
	u32 busy;
	u32 rwnd;
	u32 sndbuf;
};

/* The kernel adds a period to its statistics when it ends; the one that goes on is ours to add. */
static __always_inline struct waiting waiting_of(struct tcp_sock *tp)
{
	u32 type = BPF_CORE_READ_BITFIELD(tp, chrono_type) & 3;
	u32 since = (u32)bpf_jiffies64() - tp->chrono_start;
	struct waiting waiting = {tp->chrono_stat[0], tp->chrono_stat[1], tp->chrono_stat[2]};

	if (type == 1)
		waiting.busy += since;
	else if (type == 2)
		waiting.rwnd += since;
	else if (type == 3)
		waiting.sndbuf += since;
	waiting.busy += waiting.rwnd + waiting.sndbuf;
	return waiting;
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
	row->local_port = ends.local_port;
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
	const struct tx_agent_orders *orders = orders_now();
	struct waiting waiting;
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
	if (orders && (u8)orders->generation != entry->generation)
		row->flags |= TX_LEVEL_CHANGED;
	row->state = state;
	row->error = sk->sk_err;
	row->tgid = entry->tgid;
	row->chosen = entry->chosen;
	row->syn_retransmitted = entry->syn_retransmitted;
	row->syn_timeouts = entry->syn_timeouts;
	row->reserved2 = 0;
	row->time_ns = bpf_ktime_get_boot_ns();
	row->cookie = bpf_get_socket_cookie(sk);
	row->begun_ns = entry->begun_ns;
	row->established_ns = entry->established_ns;
	__builtin_memcpy(row->comm, entry->comm, 16);
	row->by_recovery = entry->by_recovery;
	row->by_timeout = entry->by_timeout;
	row->by_probe = entry->by_probe;
	row->timeouts = timeouts_of(entry, tp);
	row->cwnd_max = entry->cwnd_max;
	__builtin_memcpy(row->rtt, entry->rtt, TX_RTT_BUCKETS);
	read_who(row, sk, tp);
	read_counters(row, tp);
	if (entry->least_rtt && entry->least_rtt < row->min_rtt_us)
		row->min_rtt_us = entry->least_rtt;
	waiting = waiting_of(tp);
	row->busy = waiting.busy;
	row->rwnd = waiting.rwnd;
	row->sndbuf = waiting.sndbuf;
	bpf_ringbuf_submit(row, wake());
	return 0;
}

#endif
