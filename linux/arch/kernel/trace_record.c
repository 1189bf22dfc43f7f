// SPDX-License-Identifier: GPL-2.0
/* What a socket is at this moment, as the record of an event (bpf/event.h). */
#include <linux/skbuff.h>
#include <net/inet_connection_sock.h>
#include <net/ipv6.h>
#include <net/tcp.h>

#include "protocol.h"
#include "trace.h"

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

static u16 send_buffer_of(const struct sock *sk)
{
	u16 kib = min(sk->sk_sndbuf >> 10, TX_WRITE_BLOCKED - 1);

	if (sk->sk_socket && test_bit(SOCK_NOSPACE, &sk->sk_socket->flags))
		kib |= TX_WRITE_BLOCKED;
	return kib;
}

void trace_read_state(struct tx_state *to, const struct sock *sk)
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
		.mdev_us = tp->mdev_us >> 2,
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
		.send_buffer = send_buffer_of(sk),
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

void trace_read_open(struct tx_open *to, const struct sock *sk)
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

void trace_read_sack(struct tx_sack *to, const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	to->cwnd = tcp_snd_cwnd(tp);
	to->ssthresh = tp->snd_ssthresh;
	to->snd_una = tp->snd_una;
	to->snd_nxt = tp->snd_nxt;
	to->packets_out = tp->packets_out;
	to->sacked_out = tp->sacked_out;
	to->lost_out = tp->lost_out;
	to->retrans_out = tp->retrans_out;
	to->ca_state = inet_csk(sk)->icsk_ca_state;
	to->tcp_state = sk->sk_state;
}
