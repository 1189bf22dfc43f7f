/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * Reading a TCP socket. READ is a plain (fault-tolerant) load where the
 * verifier knows the pointer, and a copying read in kprobes, which get only
 * numbers: the includer may define it before.
 */
#ifndef TRANSOM_STATE_H
#define TRANSOM_STATE_H

#include "compat.h"
#include "event.h"

#ifndef READ
#define READ(pointer, field) ((pointer)->field)
#define READ_BITS(pointer, field) BPF_CORE_READ_BITFIELD(pointer, field)
#endif

/* icsk_rto counts jiffies; set before loading. */
const volatile u32 us_per_jiffy = 4000;

static __always_inline u8 read_flags(struct tcp_sock *tp, u32 cwnd, u32 ssthresh)
{
	u8 flags = 0;

	if (READ_BITS(tp, is_cwnd_limited))
		flags |= TX_CWND_LIMITED;
	if (READ(tp, app_limited))
		flags |= TX_APP_LIMITED;
	flags |= (READ_BITS(tp, chrono_type) & 3) << TX_CHRONO_SHIFT;
	if (READ(tp, inet_conn.icsk_inet.sk.sk_pacing_status))
		flags |= TX_PACED;
	if (cwnd < ssthresh)
		flags |= TX_IN_SLOW_START;
	if (READ(tp, ecn_flags) & 1)
		flags |= TX_ECN;
	return flags;
}

/* An orphan (closed by its program) has no socket. */
static __always_inline u16 read_send_buffer(struct tcp_sock *tp)
{
	struct socket *socket = READ(tp, inet_conn.icsk_inet.sk.sk_socket);
	u32 kib = READ(tp, inet_conn.icsk_inet.sk.sk_sndbuf) >> 10;
	bool blocked = socket && READ(socket, flags) >> SOCK_NOSPACE & 1;

	if (kib >= TX_WRITE_BLOCKED)
		kib = TX_WRITE_BLOCKED - 1;
	return blocked ? kib | TX_WRITE_BLOCKED : kib;
}

static __always_inline void read_state(struct tx_state *to, struct tcp_sock *tp)
{
	u32 cwnd = READ(tp, snd_cwnd), ssthresh = READ(tp, snd_ssthresh);
	u32 snd_nxt = READ(tp, snd_nxt);

	to->cwnd = cwnd;
	to->ssthresh = ssthresh;
	to->clamp = READ(tp, snd_cwnd_clamp);
	to->snd_una = READ(tp, snd_una);
	to->snd_nxt = snd_nxt;
	to->rcv_nxt = READ(tp, rcv_nxt);
	to->snd_wnd = READ(tp, snd_wnd);
	to->rcv_wnd = READ(tp, rcv_wnd);
	to->packets_out = READ(tp, packets_out);
	to->sacked_out = READ(tp, sacked_out);
	to->lost_out = READ(tp, lost_out);
	to->retrans_out = READ(tp, retrans_out);
	to->rto_us = READ(tp, inet_conn.icsk_rto) * us_per_jiffy;
	to->srtt_us = READ(tp, srtt_us) >> 3;
	to->rttvar_us = READ(tp, rttvar_us) >> 2;
	to->min_rtt_us = READ(tp, rtt_min.s[0].v);
	to->send_queue = READ(tp, inet_conn.icsk_inet.sk.sk_wmem_queued);
	to->recv_queue = READ(tp, inet_conn.icsk_inet.sk.sk_backlog.rmem_alloc.counter);
	to->unsent = READ(tp, write_seq) - snd_nxt;
	to->delivered = READ(tp, delivered);
	to->pacing_rate = READ(tp, inet_conn.icsk_inet.sk.sk_pacing_rate);
	to->mss = READ(tp, mss_cache);
	to->ca_state = READ_BITS(tp, inet_conn.icsk_ca_state);
	to->tcp_state = READ(tp, inet_conn.icsk_inet.sk.__sk_common.skc_state);
	to->flags = read_flags(tp, cwnd, ssthresh);
	to->backoff = READ(tp, inet_conn.icsk_backoff);
	to->send_buffer = read_send_buffer(tp);
}

/* ::ffff:a.b.c.d: an IPv6 socket that speaks IPv4 (RFC 4291 section 2.5.5.2). */
static __always_inline bool is_mapped(const __u8 *addr)
{
	const __u32 *words = (const void *)addr;

	return !words[0] && !words[1] && words[2] == __builtin_bswap32(0xffff);
}

static __always_inline void read_addresses(struct tx_open *to, struct sock *sk)
{
	__builtin_memset(to->local_addr, 0, 16);
	__builtin_memset(to->remote_addr, 0, 16);
	to->family = READ(sk, __sk_common.skc_family);
	if (to->family == AF_INET6) {
		bpf_probe_read_kernel(to->local_addr, 16, &sk->__sk_common.skc_v6_rcv_saddr);
		bpf_probe_read_kernel(to->remote_addr, 16, &sk->__sk_common.skc_v6_daddr);
		if (is_mapped(to->remote_addr)) {
			to->family = AF_INET;
			__builtin_memset(to->local_addr, 0, 16);
			__builtin_memset(to->remote_addr, 0, 16);
		}
	}
	if (to->family == AF_INET) {
		*(__be32 *)to->local_addr = READ(sk, __sk_common.skc_rcv_saddr);
		*(__be32 *)to->remote_addr = READ(sk, __sk_common.skc_daddr);
	}
	to->local_port = READ(sk, __sk_common.skc_num);
	to->remote_port = __builtin_bswap16(READ(sk, __sk_common.skc_dport));
}

static __always_inline u32 route_ifindex(struct sock *sk)
{
	u32 bound = READ(sk, __sk_common.skc_bound_dev_if);

	return bound ?: BPF_CORE_READ(sk, sk_dst_cache, dev, ifindex);
}

/* What filters ask for: both ends, the namespace, the interface. */
static __always_inline void read_whereabouts(struct tx_open *to, struct sock *sk)
{
	read_addresses(to, sk);
	to->netns = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
	to->ifindex = route_ifindex(sk);
}

#endif
