/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * The probes: one program per place in the kernel. Each says what happened and
 * leaves which connection and how much to connection.h and state.h. Which of them load is
 * chosen in user space, one per purpose (crates/monitor/src/probes.rs).
 */
#ifndef TRANSOM_PROBES_H
#define TRANSOM_PROBES_H

#include "heir.h"
#include "segment.h"
#include "sends.h"
#include <bpf/bpf_tracing.h>

/* A drop by the queue and the CWR it leads to lie in one call, unless it is preempted. */
#define SAME_CALL_NS 10000000

/* The watched connection that a segment on its way out belongs to. */
static __always_inline struct tcp_sock *sender_of(struct sock *sk, struct by_address **entry)
{
	if (!sk)
		return NULL;
	*entry = find_address((u64)sk);
	if (!*entry)
		return NULL;
	if (!is_of(*entry, sk)) {
		forget_address((u64)sk);
		return NULL;
	}
	return tcp_sock_at(sk);
}

/*
 * The bytes after which one is due whatever the time. Sequence numbers tell steps of less than
 * 2 GiB, and up to 1 GiB may be in flight, so that much less new data may pass in between.
 */
#define MOST_UNTOLD_BYTES (1U << 29)

static __always_inline bool due(struct by_address *entry, u64 *last, struct tcp_sock *tp)
{
	u64 now, interval = settings.min_interval_ns;
	u32 bytes;

	if (settings.once_per_rtt)
		interval = (u64)(tp->srtt_us >> 3) * 1000;
	if (!interval)
		return true;
	now = bpf_ktime_get_boot_ns();
	bytes = tp->snd_nxt + tp->rcv_nxt;
	if (now - *last < interval && bytes - entry->told_bytes < MOST_UNTOLD_BYTES)
		return false;
	*last = now;
	entry->told_bytes = bytes;
	return true;
}

/* As the control block has it, in host byte order. */
static __always_inline u32 acknowledgment(const struct sk_buff *skb)
{
	void *cb = (void *)skb + bpf_core_field_offset(struct sk_buff___cb, cb);
	u32 ack = 0;

	if (bpf_ksym_exists(bpf_rdonly_cast))
		return KERNEL_AT(struct tcp_skb_cb, cb)->ack_seq;
	bpf_probe_read_kernel(&ack, sizeof(ack),
			      cb + bpf_core_field_offset(struct tcp_skb_cb, ack_seq));
	return ack;
}

/* Established connections: each segment that arrives. Returns the entry when an `ack` is due. */
static __always_inline struct by_address *segment_arrived(struct sock *sk, struct tcp_sock *tp,
							  const struct sk_buff *skb, u32 *acked)
{
	struct by_address *entry;
	struct header th;
	u32 ack, una, payload;

	entry = watched_entry(sk, tp, TX_AT_RCV_ESTABLISHED);
	if (!entry)
		return NULL;
	if (!read_header(&th, skb->data, IN_SEGMENT)) {
		count_loss(TX_LOSS_SEGMENT);
		return NULL;
	}
	/*
	 * The header may be older: segments that waited for the socket's lock are
	 * joined, and only the control block gets the last one's number
	 * (tcp_add_backlog), which is the one that tcp_ack() takes.
	 */
	ack = acknowledgment(skb);
	th.ack_seq = __builtin_bswap32(ack);
	if (!entry->settled)
		want_owner();
	una = tp->snd_una;
	payload = skb->len - header_length(&th);
	*acked = (th.flags & TH_ACK) && is_before(una, ack) ? ack - una : 0;
	if (*acked)
		entry->dup_acks = 0;
	/* tcp_try_to_open() and tcp_process_tlp_ack() are the only ACKs that end in CWR. */
	entry->may_enter_cwr =
		(th.flags & TH_ECE) || (tp->tlp_high_seq && is_before(tp->tlp_high_seq, ack));
	if (!*acked || th.offset != 0x80 || th.option != OPTION_TIMESTAMP_ONLY || !th.window)
		entry->dup_acks = emit_segment_errors(entry, tp, &th, skb, payload);
	return due(entry, &entry->last_ack_ns, tp) ? entry : NULL;
}

static __always_inline int acknowledged(struct sock *sk, struct sk_buff *skb)
{
	struct tcp_sock *tp = tcp_sock_at(sk);
	struct by_address *entry;
	u32 acked;

	if (!tp)
		return 0;
	entry = segment_arrived(sk, tp, skb, &acked);
	if (entry)
		emit_state_inline(&entry->id, sk, tp, TX_ACK, TX_AT_RCV_ESTABLISHED, acked,
				  tp->snd_cwnd, 0);
	return 0;
}

/* Runs in a process too, which holds the lock (the socket's backlog): softirqs come in between. */
SEC("tp_btf/tcp_probe")
int BPF_PROG(tp_ack, struct sock *sk, struct sk_buff *skb)
{
	bool owned = bpf_ksym_exists(bpf_local_irq_save) && sk->sk_lock.owned;
	unsigned long flags;

	if (owned)
		bpf_local_irq_save(&flags);
	acknowledged(sk, skb);
	if (owned)
		bpf_local_irq_restore(&flags);
	return 0;
}

/* Where a probe on the function's exit tells the state after: keep what only the entry knows. */
static __always_inline int segment_entered(struct sock *sk, struct sk_buff *skb)
{
	struct tcp_sock *tp = tcp_sock_at(sk);
	struct by_address *entry;
	u32 acked;

	if (!tp)
		return 0;
	entry = segment_arrived(sk, tp, skb, &acked);
	if (!entry)
		return 0;
	entry->in_segment = true;
	entry->acked = acked;
	entry->cwnd_before = tp->snd_cwnd;
	return 0;
}

static __always_inline int segment_left(struct by_address *entry, struct tcp_sock *tp)
{
	if (!tp || !entry || !entry->in_segment)
		return 0;
	entry->in_segment = false;
	emit_state_inline(&entry->id, (struct sock *)tp, tp, TX_ACK, TX_AT_RCV_ESTABLISHED,
			  entry->acked, entry->cwnd_before, TX_AFTER);
	return 0;
}

SEC("fentry/tcp_rcv_established")
int BPF_PROG(fentry_ack, struct sock *sk, struct sk_buff *skb)
{
	return segment_entered(sk, skb);
}

SEC("fexit/tcp_rcv_established")
int BPF_PROG(fexit_ack, struct sock *sk, struct sk_buff *skb)
{
	return segment_left(find_address((u64)sk), tcp_sock_at(sk));
}

static __always_inline void entered_loss(struct connection *conn, struct tcp_sock *tp, u8 where,
					 bool reneging)
{
	u8 retransmits = tp->inet_conn.icsk_retransmits;
	u8 ca_state = BPF_CORE_READ_BITFIELD(tp, inet_conn.icsk_ca_state);

	emit_state(&conn->id, tp, TX_RTO, where, retransmits + 1,
		   rto_cause(ca_state, tp->inet_conn.icsk_pending, reneging, retransmits,
			     &conn->reneging_told),
		   0);
}

/*
 * Whether CWR may be entered for what has been acknowledged. `tcp_probe` shows established ones only,
 * and with AccECN the flags of an ACK are a counter: any of them may ask.
 */
static __always_inline bool is_asked_for(const struct by_address *entry, struct tcp_sock *tp)
{
	u8 state = tp->inet_conn.icsk_inet.sk.__sk_common.skc_state;

	if (state == TCP_ESTABLISHED && !(tp->ecn_flags & TX_ECN_ACCURATE))
		return entry->may_enter_cwr;
	return ecn_agreed(tp) || has_repaired_tail(&entry->tail, tp);
}

/*
 * CWR without an ACK that asked for it: the device refused a segment
 * (__tcp_transmit_skb). What its queue dropped was told one by one.
 */
static __always_inline void refused_by_device(const struct by_address *entry, struct tcp_sock *tp)
{
	if (is_asked_for(entry, tp))
		return;
	if (entry->dropped_ns && bpf_ktime_get_boot_ns() - entry->dropped_ns < SAME_CALL_NS)
		return;
	emit_state(&entry->id, tp, TX_LOCAL_CONGESTION, TX_AT_ENTER_CWR, 0, 0, 0);
}

SEC("tp_btf/tcp_cong_state_set")
int BPF_PROG(tp_ca_state, struct sock *sk, u8 state)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct by_address *entry;
	struct connection *conn;
	u8 old;

	if (!tp)
		return 0;
	conn = watched(sk, tp, TX_AT_SET_CA_STATE);
	if (!conn)
		return 0;
	old = BPF_CORE_READ_BITFIELD(tp, inet_conn.icsk_ca_state);
	entry = settings.refusal_by_state ? find_address((u64)sk) : NULL;
	if (entry) {
		if (state == TCP_CA_CWR && old < TCP_CA_CWR)
			refused_by_device(entry, tp);
		changed_state(&entry->tail, state);
	}
	/* Each timeout passes here, also the second and later ones, which change nothing. */
	if (settings.rto_by_state && state == TCP_CA_Loss)
		entered_loss(conn, tp, TX_AT_SET_CA_STATE,
			     BPF_CORE_READ_BITFIELD(tp, is_sack_reneg));
	if (old != state)
		emit_state(&conn->id, tp, TX_CA_STATE, TX_AT_SET_CA_STATE, old, state, 0);
	return 0;
}

SEC("fentry/tcp_enter_loss")
int BPF_PROG(fentry_rto, struct sock *sk)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct connection *conn;

	if (!tp)
		return 0;
	conn = watched(sk, tp, TX_AT_ENTER_LOSS);
	/* What is marked as taken back already was so in an earlier wait. */
	if (conn)
		entered_loss(conn, tp, TX_AT_ENTER_LOSS, false);
	return 0;
}

/* __tcp_transmit_skb calls tcp_enter_cwr on exactly these return values. */
static __always_inline int transmitted(struct sock *sk, int error)
{
	struct tcp_sock *tp;
	struct connection *conn;

	if (error <= 0)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	conn = watched(sk, tp, TX_AT_ENTER_CWR);
	if (conn)
		emit_state(&conn->id, tp, TX_LOCAL_CONGESTION, TX_AT_ENTER_CWR, error, 0, 0);
	return 0;
}

SEC("fexit/ip_queue_xmit")
int BPF_PROG(fexit_transmit4, struct sock *sk, struct sk_buff *skb, void *flow, int error)
{
	return transmitted(sk, error);
}

SEC("fexit/inet6_csk_xmit")
int BPF_PROG(fexit_transmit6, struct sock *sk, struct sk_buff *skb, void *flow, int error)
{
	return transmitted(sk, error);
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(tp_drop, struct sk_buff *skb, void *location, u32 reason)
{
	struct by_address *entry;
	struct tcp_sock *tp;

	if (!is_queue_drop(reason))
		return 0;
	tp = sender_of(skb->sk, &entry);
	if (!tp)
		return 0;
	entry->dropped_ns = bpf_ktime_get_boot_ns();
	emit_state(&entry->id, tp, TX_LOCAL_CONGESTION, TX_AT_QDISC_DROP, reason, skb->len, 0);
	return 0;
}

SEC("tp_btf/net_dev_queue")
int BPF_PROG(tp_send, struct sk_buff *skb)
{
	struct sock *sk = skb->sk;
	struct by_address *entry;
	struct tcp_sock *tp;
	unsigned char *start;
	struct header th;
	u32 seq, payload;

	tp = sender_of(sk, &entry);
	if (!tp)
		return 0;
	start = skb->head + skb->transport_header;
	if (!read_header(&th, start, OUT_SEGMENT)) {
		count_loss(TX_LOSS_SEGMENT);
		return 0;
	}
	/* A tunnel's device sees the outer header. */
	if (th.dest != sk->__sk_common.skc_dport)
		return 0;
	seq = __builtin_bswap32(th.seq);
	if (!th.window && !(th.flags & TH_RST) && is_first_zero_window(entry, skb, seq))
		emit_state(&entry->id, tp, TX_ZERO_WINDOW, TX_AT_DEV_QUEUE, TX_SENT, 0, 0);
	if (sk->sk_lock.owned && is_by_another(entry))
		sent_by_process(entry, tp, th.flags);
	if (!entry->settled)
		want_owner();
	/* __dev_queue_xmit has just set mac_header to where the data starts. */
	payload = skb->len - (skb->transport_header - skb->mac_header) - header_length(&th);
	if (!payload || seq != tp->snd_nxt || !is_first_send(entry, tp, seq, payload))
		return 0;
	if (due(entry, &entry->last_send_ns, tp))
		emit_state_inline(&entry->id, sk, tp, TX_SEND, TX_AT_DEV_QUEUE, payload,
				  gso_segments(skb), 0);
	return 0;
}

static __always_inline int retransmitted(struct sock *sk, struct sk_buff *skb)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct by_address *entry;
	struct connection *conn;
	u32 cb[2] = {}, reason;

	if (!tp)
		return 0;
	conn = watched(sk, tp, TX_AT_RETRANSMIT_SKB);
	if (!conn)
		return 0;
	/* TCP_SKB_CB: seq and end_seq come first, then the number of segments. */
	bpf_probe_read_kernel(cb, sizeof(cb),
			      (void *)skb + bpf_core_field_offset(struct sk_buff___cb, cb));
	reason = retransmit_reason(sk->__sk_common.skc_state,
				   BPF_CORE_READ_BITFIELD(tp, inet_conn.icsk_ca_state),
				   tp->inet_conn.icsk_pending);
	entry = find_address((u64)sk);
	if (entry && reason == TX_RETRANS_TLP)
		probed_tail(&entry->tail, tp);
	emit_state(&conn->id, tp, TX_RETRANSMIT, TX_AT_RETRANSMIT_SKB,
		   reason | gso_segments(skb) << 8, cb[0], 0);
	return 0;
}

/* Since 6.17 attempts that failed are traced, too, and tell their error (commit ad892e912b84). */
SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(tp_retransmit, struct sock *sk, struct sk_buff *skb, int error)
{
	return error ? 0 : retransmitted(sk, skb);
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(tp_retransmit_before_6_17, struct sock *sk, struct sk_buff *skb)
{
	return retransmitted(sk, skb);
}

static __always_inline void reset(struct sock *sk, u8 where, u32 direction, u32 reason)
{
	struct connection *conn;
	struct tcp_sock *tp;

	/* A reset for a port nobody listens on has no connection. */
	if (!sk)
		return;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp || sk->__sk_common.skc_state == TCP_LISTEN)
		return;
	conn = watched(sk, tp, where);
	if (conn)
		emit_state(&conn->id, tp, TX_RESET, where, direction, reason, 0);
}

SEC("tp_btf/tcp_receive_reset")
int BPF_PROG(tp_reset_received, struct sock *sk)
{
	reset(sk, TX_AT_RESET, TX_RECEIVED, 0);
	return 0;
}

/* Since 6.10 a third argument tells the reason (commit b533fb9cf4f7). */
SEC("tp_btf/tcp_send_reset")
int BPF_PROG(tp_reset_sent_reason, struct sock *sk, struct sk_buff *skb, u32 reason)
{
	reset(sk, TX_AT_SEND_RESET, TX_SENT, reason);
	return 0;
}

SEC("tp_btf/tcp_send_reset")
int BPF_PROG(tp_reset_sent, struct sock *sk, struct sk_buff *skb)
{
	reset(sk, TX_AT_SEND_RESET, TX_SENT, 0);
	return 0;
}

#endif
