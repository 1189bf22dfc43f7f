/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/* Reading a TCP socket, with the plain, fault-tolerant loads of BTF pointers. */
#ifndef TRANSOM_STATE_H
#define TRANSOM_STATE_H

#include "compat.h"
#include "event.h"
#include "settings.h"

/* tcp_sock.ecn_flags: ECN as in RFC 3168, or AccECN of newer kernels (RFC 9768). */
#define TX_ECN_CLASSIC 0x01
#define TX_ECN_ACCURATE 0x10

static __always_inline bool ecn_agreed(struct tcp_sock *tp)
{
	return tp->ecn_flags & (TX_ECN_CLASSIC | TX_ECN_ACCURATE);
}

/*
 * Two CPUs that receive the end of one handshake both make a socket of it. The one that comes second
 * is closed at once, and no connection ends with it. A child that is closed by force has no port any
 * more, and one of Fast Open has its request.
 */
static __always_inline bool is_spare(const struct sock *sk, const struct tcp_sock *tp, int old)
{
	return old == TCP_SYN_RECV && !tp->fastopen_rsk && sk->__sk_common.skc_num;
}

static __always_inline u8 read_flags(struct sock *sk, struct tcp_sock *tp, u32 cwnd, u32 ssthresh)
{
	u8 flags = 0;

	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		flags |= TX_CWND_LIMITED;
	if (tp->app_limited)
		flags |= TX_APP_LIMITED;
	flags |= (BPF_CORE_READ_BITFIELD(tp, chrono_type) & 3) << TX_CHRONO_SHIFT;
	if (sk->sk_pacing_status)
		flags |= TX_PACED;
	if (cwnd < ssthresh)
		flags |= TX_IN_SLOW_START;
	if (ecn_agreed(tp))
		flags |= TX_ECN;
	return flags;
}

/* An orphan (closed by its program) has no socket. */
static __always_inline u16 read_send_buffer(struct sock *sk)
{
	struct socket *socket = sk->sk_socket;
	u32 kib = sk->sk_sndbuf >> 10;
	bool blocked = socket && socket->flags >> SOCK_NOSPACE & 1;

	if (kib >= TX_WRITE_BLOCKED)
		kib = TX_WRITE_BLOCKED - 1;
	return blocked ? kib | TX_WRITE_BLOCKED : kib;
}

/*
 * `sk` and `tp` are one address. What a tracepoint hands over is trusted, so that loads of `sk` are
 * plain ones; each load of `tp`, which is a cast, is checked for an address that may fault.
 */
static __always_inline void read_state(struct tx_state *to, struct sock *sk, struct tcp_sock *tp)
{
	u32 cwnd = tp->snd_cwnd, ssthresh = tp->snd_ssthresh;
	u32 snd_nxt = tp->snd_nxt;

	to->cwnd = cwnd;
	to->ssthresh = ssthresh;
	to->clamp = tp->snd_cwnd_clamp;
	to->snd_una = tp->snd_una;
	to->snd_nxt = snd_nxt;
	to->rcv_nxt = tp->rcv_nxt;
	to->snd_wnd = tp->snd_wnd;
	to->rcv_wnd = tp->rcv_wnd;
	to->packets_out = tp->packets_out;
	to->sacked_out = tp->sacked_out;
	to->lost_out = tp->lost_out;
	to->retrans_out = tp->retrans_out;
	to->rto_us = tp->inet_conn.icsk_rto * settings.us_per_jiffy;
	to->srtt_us = tp->srtt_us >> 3;
	to->mdev_us = tp->mdev_us >> 2;
	to->min_rtt_us = tp->rtt_min.s[0].v;
	to->send_queue = sk->sk_wmem_queued;
	to->recv_queue = sk->sk_backlog.rmem_alloc.counter;
	to->unsent = tp->write_seq - snd_nxt;
	to->delivered = tp->delivered;
	to->pacing_rate = sk->sk_pacing_rate;
	to->mss = tp->mss_cache;
	to->ca_state = BPF_CORE_READ_BITFIELD(tp, inet_conn.icsk_ca_state);
	to->tcp_state = sk->__sk_common.skc_state;
	to->flags = read_flags(sk, tp, cwnd, ssthresh);
	to->backoff = tp->inet_conn.icsk_backoff;
	to->send_buffer = read_send_buffer(sk);
}

/* ::ffff:a.b.c.d: an IPv6 socket that speaks IPv4 (RFC 4291 section 2.5.5.2). */
static __always_inline bool is_mapped(const __u8 *addr)
{
	const __u32 *words = (const void *)addr;

	return !words[0] && !words[1] && words[2] == __builtin_bswap32(0xffff);
}

/* An attempt that ends before its SYN has left: no port was free, or there was no route. */
static __always_inline bool has_never_left(struct sock *sk)
{
	return sk->__sk_common.skc_state == TCP_SYN_SENT &&
	       !BPF_CORE_READ((struct tcp_sock *)sk, segs_out);
}

static __always_inline void read_addresses(struct tx_open *to, struct sock *sk)
{
	__builtin_memset(to->local_addr, 0, 16);
	__builtin_memset(to->remote_addr, 0, 16);
	to->family = sk->__sk_common.skc_family;
	/* A kernel may be built without IPv6, without network namespaces, and without cgroups of sockets. */
	if (bpf_core_field_exists(sk->__sk_common.skc_v6_daddr) && to->family == AF_INET6) {
		bpf_probe_read_kernel(to->local_addr, 16, &sk->__sk_common.skc_v6_rcv_saddr);
		bpf_probe_read_kernel(to->remote_addr, 16, &sk->__sk_common.skc_v6_daddr);
		if (is_mapped(to->remote_addr)) {
			to->family = AF_INET;
			__builtin_memset(to->local_addr, 0, 16);
			__builtin_memset(to->remote_addr, 0, 16);
		}
	}
	if (to->family == AF_INET) {
		*(__be32 *)to->local_addr = sk->__sk_common.skc_rcv_saddr;
		*(__be32 *)to->remote_addr = sk->__sk_common.skc_daddr;
	}
	/*
	 * When a connection ends, its port has been given back already; the other field stays. It is
	 * that of an attempt before where the socket has got none for this one.
	 */
	to->local_port = sk->__sk_common.skc_num;
	if (!to->local_port && !has_never_left(sk))
		to->local_port =
			__builtin_bswap16(BPF_CORE_READ((struct inet_sock *)sk, inet_sport));
	to->remote_port = __builtin_bswap16(sk->__sk_common.skc_dport);
}

static __always_inline u32 route_ifindex(struct sock *sk)
{
	u32 bound = sk->__sk_common.skc_bound_dev_if;

	return bound ?: BPF_CORE_READ(sk, sk_dst_cache, dev, ifindex);
}

/* Inode number of the network namespace; 0 where the kernel has none. */
static __always_inline u32 netns_of(struct sock *sk)
{
	if (!bpf_core_field_exists(sk->__sk_common.skc_net.net))
		return 0;
	return BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
}

/* What filters ask for: both ends, the namespace, the interface. */
static __always_inline void read_whereabouts(struct tx_open *to, struct sock *sk)
{
	read_addresses(to, sk);
	to->netns = netns_of(sk);
	to->ifindex = route_ifindex(sk);
}

/* What a connection is, but for its program, which is no matter of the socket. */
static __always_inline void read_open(struct tx_open *to, struct sock *sk, struct tcp_sock *tp)
{
	const struct tcp_congestion_ops *ops = tp->inet_conn.icsk_ca_ops;
	struct cgroup *cgrp = socket_cgroup(sk);

	read_whereabouts(to, sk);
	to->reserved = 0;
	to->mptcp = mptcp_token(tp);
	to->reserved2 = 0;
	to->cgroup = cgrp ? BPF_CORE_READ(cgrp, kn, id) : 0;
	__builtin_memset(to->algorithm, 0, 16);
	if (ops)
		bpf_probe_read_kernel_str(to->algorithm, 16, &ops->name);
}

#endif
