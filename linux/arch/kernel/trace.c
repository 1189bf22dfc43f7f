// SPDX-License-Identifier: GPL-2.0
/*
 * The library's own tracepoints as events of the monitor (bpf/event.h). What
 * happens where is as in bpf/probes.h, with tracepoints only.
 */
#include <linux/skbuff.h>
#include <net/inet_connection_sock.h>
#include <net/ipv6.h>
#include <net/tcp.h>
#include <trace/events/net.h>
#include <trace/events/sock.h>
#include <trace/events/tcp.h>

#include "event.h"
#include "library.h"
#include "protocol.h"

static u8 flags_of(const struct tcp_sock *tp)
{
	u8 flags = (tp->chrono_type & 3) << TX_CHRONO_SHIFT;

	if (tp->is_cwnd_limited)
		flags |= TX_CWND_LIMITED;
	if (tp->app_limited)
		flags |= TX_APP_LIMITED;
	if (tp->inet_conn.icsk_inet.sk.sk_pacing_status != SK_PACING_NONE)
		flags |= TX_PACED;
	if (tcp_snd_cwnd(tp) < tp->snd_ssthresh)
		flags |= TX_IN_SLOW_START;
	if (tp->ecn_flags & TCP_ECN_OK)
		flags |= TX_ECN;
	return flags;
}

static void read_state(struct tx_state *to, const struct sock *sk)
{
	const struct inet_connection_sock *icsk = inet_csk(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	*to = (struct tx_state){
		.cwnd = tcp_snd_cwnd(tp),
		.ssthresh = tp->snd_ssthresh,
		.clamp = tp->snd_cwnd_clamp,
		.snd_una = tp->snd_una,
		.snd_nxt = tp->snd_nxt,
		.rcv_nxt = tp->rcv_nxt,
		.snd_wnd = tp->snd_wnd,
		.rcv_wnd = tp->rcv_wnd,
		.packets_out = tp->packets_out,
		.sacked_out = tp->sacked_out,
		.lost_out = tp->lost_out,
		.retrans_out = tp->retrans_out,
		.rto_us = jiffies_to_usecs(icsk->icsk_rto),
		.srtt_us = tp->srtt_us >> 3,
		.rttvar_us = tp->rttvar_us >> 2,
		.min_rtt_us = tcp_min_rtt(tp),
		.send_queue = sk->sk_wmem_queued,
		.recv_queue = atomic_read(&sk->sk_rmem_alloc),
		.unsent = tp->write_seq - tp->snd_nxt,
		.delivered = tp->delivered,
		.pacing_rate = sk->sk_pacing_rate,
		.mss = tp->mss_cache,
		.ca_state = icsk->icsk_ca_state,
		.tcp_state = sk->sk_state,
		.flags = flags_of(tp),
		.backoff = icsk->icsk_backoff,
	};
}

static void read_addresses(struct tx_open *to, const struct sock *sk)
{
	to->family = sk->sk_family;
	if (to->family == AF_INET6 && !ipv6_addr_v4mapped(&sk->sk_v6_daddr)) {
		memcpy(to->local_addr, &sk->sk_v6_rcv_saddr, 16);
		memcpy(to->remote_addr, &sk->sk_v6_daddr, 16);
	} else {
		to->family = AF_INET;
		memcpy(to->local_addr, &sk->sk_rcv_saddr, 4);
		memcpy(to->remote_addr, &sk->sk_daddr, 4);
	}
	to->local_port = sk->sk_num;
	to->remote_port = ntohs(sk->sk_dport);
}

static u64 cookie_of(const struct sock *sk)
{
	return sock_gen_cookie((struct sock *)sk);
}

static void read_open(struct tx_open *to, const struct sock *sk)
{
	const struct dst_entry *dst = rcu_access_pointer(sk->sk_dst_cache);

	memset(to, 0, sizeof(*to));
	read_addresses(to, sk);
	to->ifindex = sk->sk_bound_dev_if;
	if (!to->ifindex && dst)
		to->ifindex = dst->dev->ifindex;
	if (inet_csk(sk)->icsk_ca_ops)
		strscpy(to->algorithm, inet_csk(sk)->icsk_ca_ops->name, sizeof(to->algorithm));
	if (sk_is_mptcp(sk))
		to->mptcp = mptcp_sk(mptcp_subflow_ctx(sk)->conn)->token;
}

static void tell(const struct sock *sk, u8 kind, u8 where, u32 aux0, u32 aux1)
{
	struct tx_event event = {
		.head = {
			.time_ns = host->clock(host->host),
			.cookie = cookie_of(sk),
			.kind = kind,
			.where = where,
			.aux = { aux0, aux1 },
		},
	};

	if (kind == TX_OPEN)
		read_open(&event.open, sk);
	else
		read_state(&event.state, sk);
	host->trace(host->host, &event);
}

/* Request and time-wait sockets are no whole ones. */
static bool is_tcp(const struct sock *sk)
{
	return sk && sk_fullsock(sk) && sk_is_tcp(sk);
}

static void on_state(void *data, const struct sock *sk, int from, int to)
{
	if (!is_tcp(sk) || from == TCP_LISTEN || to == TCP_LISTEN)
		return;
	/* The handshake's end: only now are both addresses and the algorithm known. */
	if (to == TCP_ESTABLISHED)
		tell(sk, TX_OPEN, TX_AT_SET_STATE, from == TCP_SYN_RECV ? TX_ACCEPT : TX_CONNECT, 0);
	tell(sk, TX_STATE, TX_AT_SET_STATE, from, to);
	if (to == TCP_CLOSE)
		tell(sk, TX_CLOSE, TX_AT_SET_STATE, sk->sk_err, 0);
}

/* Before the segment is processed. */
static void on_segment(void *data, struct sock *sk, struct sk_buff *skb)
{
	const struct tcphdr *th = (const struct tcphdr *)skb->data;
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 ack = ntohl(th->ack_seq), acked = 0;

	if (th->ack && after(ack, tp->snd_una) && !after(ack, tp->snd_nxt))
		acked = ack - tp->snd_una;
	tell(sk, TX_ACK, TX_AT_RCV_ESTABLISHED, acked, tcp_snd_cwnd(tp));
}

static void on_queue(void *data, struct sk_buff *skb)
{
	u32 payload;

	if (!is_tcp(skb->sk) || !skb_transport_header_was_set(skb))
		return;
	payload = skb->len - skb_transport_offset(skb) - tcp_hdrlen(skb);
	tell(skb->sk, TX_SEND, TX_AT_DEV_QUEUE, payload, max_t(u16, 1, skb_shinfo(skb)->gso_segs));
}

static u32 retransmit_reason(const struct sock *sk)
{
	switch (sk->sk_state) {
	case TCP_SYN_SENT:
	case TCP_SYN_RECV:
		return TX_RETRANS_SYN;
	}
	switch (inet_csk(sk)->icsk_ca_state) {
	case TCP_CA_Loss:
		return inet_csk(sk)->icsk_retransmits ? TX_RETRANS_RTO : TX_RETRANS_SLOW_START;
	case TCP_CA_Recovery:
		return TX_RETRANS_FAST;
	}
	return TX_RETRANS_TLP;
}

static void on_retransmit(void *data, const struct sock *sk, const struct sk_buff *skb)
{
	if (is_tcp(sk))
		tell(sk, TX_RETRANSMIT, TX_AT_RETRANSMIT_SKB,
		     retransmit_reason(sk) | tcp_skb_pcount(skb) << 8, TCP_SKB_CB(skb)->seq);
}

/* The new state is not yet in the socket. */
static void on_ca_state(void *data, struct sock *sk, u8 to)
{
	tell(sk, TX_CA_STATE, TX_AT_SET_CA_STATE, inet_csk(sk)->icsk_ca_state, to);
}

static void on_send_reset(void *data, const struct sock *sk, const struct sk_buff *skb,
			  enum sk_rst_reason reason)
{
	if (is_tcp(sk))
		tell(sk, TX_RESET, TX_AT_SEND_RESET, TX_SENT, reason);
}

static void on_receive_reset(void *data, struct sock *sk)
{
	if (is_tcp(sk))
		tell(sk, TX_RESET, TX_AT_RESET, TX_RECEIVED, 0);
}

static int start(void)
{
	int error = register_trace_inet_sock_set_state(on_state, NULL);

	error = error ?: register_trace_tcp_probe(on_segment, NULL);
	error = error ?: register_trace_net_dev_queue(on_queue, NULL);
	error = error ?: register_trace_tcp_retransmit_skb(on_retransmit, NULL);
	error = error ?: register_trace_tcp_cong_state_set(on_ca_state, NULL);
	error = error ?: register_trace_tcp_send_reset(on_send_reset, NULL);
	return error ?: register_trace_tcp_receive_reset(on_receive_reset, NULL);
}

static void stop(void)
{
	unregister_trace_inet_sock_set_state(on_state, NULL);
	unregister_trace_tcp_probe(on_segment, NULL);
	unregister_trace_net_dev_queue(on_queue, NULL);
	unregister_trace_tcp_retransmit_skb(on_retransmit, NULL);
	unregister_trace_tcp_cong_state_set(on_ca_state, NULL);
	unregister_trace_tcp_send_reset(on_send_reset, NULL);
	unregister_trace_tcp_receive_reset(on_receive_reset, NULL);
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
