// SPDX-License-Identifier: GPL-2.0
/*
 * The library's own tracepoints as events of the monitor (bpf/event.h). What
 * happens where is as in bpf/probes.h, with tracepoints only.
 */
#include <linux/skbuff.h>
#include <library/series.h>
#include <net/inet_connection_sock.h>
#include <net/tcp.h>
#include <trace/events/net.h>
#include <trace/events/skb.h>
#include <trace/events/sock.h>
#include <trace/events/tcp.h>

#include "ack.h"
#include "library.h"
#include "trace.h"

/* A drop by the queue and the CWR it leads to lie in one call. */
#define SAME_CALL_NS 10000000

static void fill_head(struct tx_event *event, const struct sock *sk, u8 kind, u8 where, u32 aux0,
		      u32 aux1)
{
	event->head = (struct tx_head){
		.time_ns = host->clock(host->host),
		.cookie = sk ? sock_gen_cookie((struct sock *)sk) : 0,
		.kind = kind,
		.where = where,
		.aux = {aux0, aux1},
	};
}

static void tell_state(const struct sock *sk, u8 kind, u8 where, u32 aux0, u32 aux1)
{
	struct tx_event event;

	fill_head(&event, sk, kind, where, aux0, aux1);
	trace_read_state(&event.state, sk);
	host->trace(host->host, &event);
}

static void tell_identity(const struct sock *sk, u8 kind, u8 where, u32 aux0)
{
	struct tx_event event;

	fill_head(&event, sk, kind, where, aux0, 0);
	trace_read_open(&event.open, sk);
	host->trace(host->host, &event);
}

/* No memory to remember the connection by: what would have been told is not. */
static void tell_loss(void)
{
	struct tx_event event = {};

	fill_head(&event, NULL, TX_LOST, TX_AT_RECORDER, TX_LOSS_STORAGE, 1);
	host->trace(host->host, &event);
}

/* Request and time-wait sockets are no whole ones. */
static bool is_tcp(const struct sock *sk)
{
	return sk && sk_fullsock(sk) && sk_is_tcp(sk);
}

/* Limits and algorithms change outside the code that we see; compared at each event. */
static void notice_changes(struct watched *watched, const struct sock *sk, u8 where)
{
	const struct tcp_congestion_ops *algorithm = inet_csk(sk)->icsk_ca_ops;
	u32 clamp = tcp_sk(sk)->snd_cwnd_clamp, old = watched->clamp;

	if (algorithm != watched->algorithm) {
		watched->algorithm = algorithm;
		tell_identity(sk, TX_ALGORITHM, where, 0);
	}
	if (clamp != old) {
		watched->clamp = clamp;
		tell_state(sk, TX_CLAMP, where, old, clamp);
	}
}

/* The connection of an event, opened by its first one; NULL if it is not to be told. */
static struct watched *watch(const struct sock *sk, u8 where)
{
	struct watched *watched;

	if (!is_tcp(sk) || sk->sk_state == TCP_LISTEN)
		return NULL;
	watched = watched_find(sk);
	if (watched && watched->open) {
		notice_changes(watched, sk, where);
		return watched;
	}
	/* connect() has not chosen a port yet, or a child is still being copied. */
	if (!sk->sk_num || (sk->sk_state == TCP_SYN_RECV && where != TX_AT_SET_STATE))
		return NULL;
	watched = watched ?: watched_begin(sk, TX_EXISTING);
	if (!watched) {
		tell_loss();
		return NULL;
	}
	watched->open = true;
	watched->clamp = tcp_sk(sk)->snd_cwnd_clamp;
	watched->algorithm = inet_csk(sk)->icsk_ca_ops;
	tell_identity(sk, TX_OPEN, where, watched->origin);
	return watched;
}

static void on_state(void *data, const struct sock *sk, int from, int to)
{
	if (!is_tcp(sk) || to == TCP_LISTEN)
		return;
	/* The open event waits for the handshake's end: only then are addresses and algorithm known. */
	if (to == TCP_SYN_SENT || to == TCP_SYN_RECV) {
		if (!watched_begin(sk, to == TCP_SYN_SENT ? TX_CONNECT : TX_ACCEPT))
			tell_loss();
		return;
	}
	if (from == TCP_LISTEN || !watch(sk, TX_AT_SET_STATE))
		return;
	tell_state(sk, TX_STATE, TX_AT_SET_STATE, from, to);
	if (to == TCP_CLOSE)
		tell_state(sk, TX_CLOSE, TX_AT_SET_STATE, sk->sk_err, 0);
}

/* Not before: a reset may follow the close. */
static void on_destroy(void *data, struct sock *sk)
{
	struct watched *watched = watched_find(sk);

	if (watched)
		watched_forget(watched);
}

static bool tell_sack(const struct sock *sk, const struct tcphdr *th, u32 ack)
{
	u32 length = th->doff * 4 - TCP_HEADER, blocks;
	u8 options[OPTIONS_ROOM] = {};
	struct tx_event event = {};

	memcpy(options, th + 1, length);
	blocks = read_sack(event.sack.blocks, options, length);
	if (!blocks)
		return false;
	fill_head(&event, sk, TX_SACK, TX_AT_RCV_ESTABLISHED, blocks,
		  is_dsack(event.sack.blocks, blocks, ack));
	trace_read_sack(&event.sack, sk);
	host->trace(host->host, &event);
	return true;
}

static bool repeats_ack(const struct sock *sk, const struct tcphdr *th, u32 ack, bool has_sack)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct lone_ack lone = {
		.number = ack,
		.window = (u32)ntohs(th->window) << tp->rx_opt.snd_wscale,
		.flags = tcp_flag_byte(th),
		.has_sack = has_sack,
	};

	return tp->packets_out && is_dup_ack(&lone, tp->snd_una, tp->snd_wnd);
}

/* The error events that the segment itself tells, on top of its `ack`. */
static void tell_segment_errors(struct watched *watched, const struct sock *sk,
				const struct sk_buff *skb, u32 ack)
{
	const struct tcphdr *th = (const struct tcphdr *)skb->data;
	u32 joined = max_t(u16, 1, skb_shinfo(skb)->gso_segs);
	bool has_sack = tell_sack(sk, th, ack);

	if (skb->len == th->doff * 4 && repeats_ack(sk, th, ack, has_sack)) {
		/* Equal ones that waited for the socket's lock are joined; tcp_ack() counts each. */
		while (joined--)
			tell_state(sk, TX_DUP_ACK, TX_AT_RCV_ESTABLISHED, ++watched->dup_acks,
				   has_sack);
	} else if (ack != tcp_sk(sk)->snd_una) {
		watched->dup_acks = 0;
	}
	if (!th->window && !th->rst)
		tell_state(sk, TX_ZERO_WINDOW, TX_AT_RCV_ESTABLISHED, TX_RECEIVED, 0);
}

/* Before the segment is processed. */
static void on_segment(void *data, struct sock *sk, struct sk_buff *skb)
{
	const struct tcphdr *th = (const struct tcphdr *)skb->data;
	struct watched *watched = watch(sk, TX_AT_RCV_ESTABLISHED);
	const struct tcp_sock *tp = tcp_sk(sk);
	/* Segments that waited for the socket's lock are joined: here is the last one's number. */
	u32 ack = TCP_SKB_CB(skb)->ack_seq, acked = 0;

	if (!watched)
		return;
	if (th->ack && is_before(tp->snd_una, ack))
		acked = ack - tp->snd_una;
	if (acked)
		watched->dup_acks = 0;
	/* tcp_try_to_open() and tcp_process_tlp_ack() are the only ACKs that end in CWR. */
	watched->may_enter_cwr = th->ece || tp->tlp_high_seq;
	tell_segment_errors(watched, sk, skb, ack);
	tell_state(sk, TX_ACK, TX_AT_RCV_ESTABLISHED, acked, tcp_snd_cwnd(tp));
}

static void on_queue(void *data, struct sk_buff *skb)
{
	const struct tcphdr *th;
	struct watched *watched;
	u32 payload, seq;

	if (!is_tcp(skb->sk) || !skb_transport_header_was_set(skb))
		return;
	watched = watched_find(skb->sk);
	if (!watched || !watched->open)
		return;
	th = tcp_hdr(skb);
	if (!th->window && !th->rst)
		tell_state(skb->sk, TX_ZERO_WINDOW, TX_AT_DEV_QUEUE, TX_SENT, 0);
	payload = skb->len - skb_transport_offset(skb) - th->doff * 4;
	seq = ntohl(th->seq);
	/* New data, and seen for the first time. */
	if (!payload || seq != tcp_sk(skb->sk)->snd_nxt || seq == watched->last_send_seq)
		return;
	watched->last_send_seq = seq;
	tell_state(skb->sk, TX_SEND, TX_AT_DEV_QUEUE, payload,
		   max_t(u16, 1, skb_shinfo(skb)->gso_segs));
}

static void on_drop(void *data, SERIES_DROP)
{
	struct watched *watched;

	if (reason != SKB_DROP_REASON_QDISC_DROP || !is_tcp(skb->sk))
		return;
	watched = watched_find(skb->sk);
	if (!watched || !watched->open)
		return;
	watched->dropped_ns = host->clock(host->host);
	tell_state(skb->sk, TX_LOCAL_CONGESTION, TX_AT_QDISC_DROP, reason, skb->len);
}

static void on_retransmit(void *data, const struct sock *sk, const struct sk_buff *skb)
{
	const struct inet_connection_sock *icsk = inet_csk(sk);
	u32 reason;

	if (!watch(sk, TX_AT_RETRANSMIT_SKB))
		return;
	reason = retransmit_reason(sk->sk_state, icsk->icsk_ca_state, icsk->icsk_pending);
	tell_state(sk, TX_RETRANSMIT, TX_AT_RETRANSMIT_SKB, reason | tcp_skb_pcount(skb) << 8,
		   TCP_SKB_CB(skb)->seq);
}

/*
 * tcp_enter_cwr() without an ACK that asked for it: the device refused a
 * segment (__tcp_transmit_skb). What its queue dropped was told one by one.
 */
static bool refused_by_device(const struct watched *watched)
{
	return !watched->may_enter_cwr &&
	       host->clock(host->host) - watched->dropped_ns >= SAME_CALL_NS;
}

/* The new state is not yet in the socket. */
static void on_ca_state(void *data, struct sock *sk, u8 to)
{
	const struct inet_connection_sock *icsk = inet_csk(sk);
	struct watched *watched = watch(sk, TX_AT_SET_CA_STATE);
	u8 from = icsk->icsk_ca_state;

	if (!watched)
		return;
	if (to == TCP_CA_CWR && from < TCP_CA_CWR && refused_by_device(watched))
		tell_state(sk, TX_LOCAL_CONGESTION, TX_AT_ENTER_CWR, 0, 0);
	/* Each timeout passes here, also the second and later ones, which change nothing. */
	if (to == TCP_CA_Loss)
		tell_state(sk, TX_RTO, TX_AT_SET_CA_STATE, icsk->icsk_retransmits + 1,
			   rto_cause(from, icsk->icsk_pending, tcp_sk(sk)->is_sack_reneg,
				     icsk->icsk_retransmits, &watched->reneging_told));
	if (from != to)
		tell_state(sk, TX_CA_STATE, TX_AT_SET_CA_STATE, from, to);
}

static void on_send_reset(void *data, SERIES_SEND_RESET)
{
	if (watch(sk, TX_AT_SEND_RESET))
		tell_state(sk, TX_RESET, TX_AT_SEND_RESET, TX_SENT, SERIES_RESET_REASON);
}

static void on_receive_reset(void *data, struct sock *sk)
{
	if (watch(sk, TX_AT_RESET))
		tell_state(sk, TX_RESET, TX_AT_RESET, TX_RECEIVED, 0);
}

static int start(void)
{
	int error = register_trace_inet_sock_set_state(on_state, NULL);

	error = error ?: register_trace_tcp_probe(on_segment, NULL);
	error = error ?: register_trace_net_dev_queue(on_queue, NULL);
	error = error ?: register_trace_kfree_skb(on_drop, NULL);
	error = error ?: register_trace_tcp_retransmit_skb(on_retransmit, NULL);
	error = error ?: register_trace_tcp_cong_state_set(on_ca_state, NULL);
	error = error ?: register_trace_tcp_send_reset(on_send_reset, NULL);
	error = error ?: register_trace_tcp_destroy_sock(on_destroy, NULL);
	return error ?: register_trace_tcp_receive_reset(on_receive_reset, NULL);
}

static void stop(void)
{
	unregister_trace_inet_sock_set_state(on_state, NULL);
	unregister_trace_tcp_probe(on_segment, NULL);
	unregister_trace_net_dev_queue(on_queue, NULL);
	unregister_trace_kfree_skb(on_drop, NULL);
	unregister_trace_tcp_retransmit_skb(on_retransmit, NULL);
	unregister_trace_tcp_cong_state_set(on_ca_state, NULL);
	unregister_trace_tcp_send_reset(on_send_reset, NULL);
	unregister_trace_tcp_destroy_sock(on_destroy, NULL);
	unregister_trace_tcp_receive_reset(on_receive_reset, NULL);
	watched_forget_all();
}

int linux_trace(int on)
{
	static bool tracing;
	int error = 0;

	if (!host->trace)
		return -EINVAL;
	if (tracing == !!on)
		return 0;
	transom_enter();
	tracing = on;
	if (on)
		error = start();
	if (!on || error)
		stop();
	tracing &= !error;
	return transom_leave(error);
}
