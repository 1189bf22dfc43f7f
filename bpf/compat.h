/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * Every difference between kernels that the programs have to know, each with
 * the version that made it. What a whole program needs (a tracepoint's
 * argument, a function) is decided in user space before loading
 * (crates/monitor/src/survey.rs).
 */
#ifndef TRANSOM_COMPAT_H
#define TRANSOM_COMPAT_H

#include "kernel.h"
#include <bpf/bpf_core_read.h>

/*
 * enum skb_drop_reason is new in 5.17, QDISC_DROP in it since 5.18; 6.14 told
 * the reasons of fq and of AQM apart. A name the running kernel does not have
 * relocates to nothing.
 */
enum skb_drop_reason {
	SKB_DROP_REASON_QDISC_DROP = 1000,
	SKB_DROP_REASON_QDISC_OVERLIMIT,
	SKB_DROP_REASON_QDISC_CONGESTED,
	SKB_DROP_REASON_FQ_BAND_LIMIT,
	SKB_DROP_REASON_FQ_FLOW_LIMIT,
};

#define REASON_IS(reason, name)                                                                    \
	(bpf_core_enum_value_exists(enum skb_drop_reason, name) &&                                 \
	 (reason) == bpf_core_enum_value(enum skb_drop_reason, name))

static __always_inline bool is_queue_drop(u32 reason)
{
	return REASON_IS(reason, SKB_DROP_REASON_QDISC_DROP) ||
	       REASON_IS(reason, SKB_DROP_REASON_QDISC_OVERLIMIT) ||
	       REASON_IS(reason, SKB_DROP_REASON_QDISC_CONGESTED) ||
	       REASON_IS(reason, SKB_DROP_REASON_FQ_BAND_LIMIT) ||
	       REASON_IS(reason, SKB_DROP_REASON_FQ_FLOW_LIMIT);
}

/*
 * skb->sk is "an RCU pointer" since 6.3 (commit 6fcd486b3a0a), which helpers
 * refuse; bpf_rdonly_cast (6.2) lets us read it all the same. Before, the
 * helper takes it. The address must be known to be a TCP socket's.
 */
extern void *bpf_rdonly_cast(const void *pointer, u32 type) __ksym __weak;

/* Memory of the kernel at a number, as a type whose fields are plain loads. */
#define KERNEL_AT(type, address)                                                                   \
	((type *)bpf_rdonly_cast((void *)(address), bpf_core_type_id_kernel(type)))

static __always_inline struct tcp_sock *tcp_sock_at(struct sock *sk)
{
	if (bpf_ksym_exists(bpf_rdonly_cast))
		return bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct tcp_sock));
	return bpf_skc_to_tcp_sock(sk);
}

/*
 * A program that is interrupted by a softirq with the same program is not run
 * a second time: an event is missed. Since 6.14 interrupts can be held off
 * meanwhile (commit c8e2ee1f3df0).
 */
extern void bpf_local_irq_save(unsigned long *flags) __ksym __weak;
extern void bpf_local_irq_restore(unsigned long *flags) __ksym __weak;

/* The same for kprobes, which have no way to a socket before 6.2. */
static __always_inline struct tcp_sock *tcp_sock_by_number(u64 address)
{
	return bpf_rdonly_cast((void *)address, bpf_core_type_id_kernel(struct tcp_sock));
}

/*
 * Multipath TCP is new in 5.6 (commit 2303f994b3e1) and may be left out of a
 * kernel. bpf_skc_to_mptcp_sock (5.19) takes no socket of a tracepoint.
 *
 * Returns the socket above this one, or NULL if it is no subflow.
 */
static __always_inline struct mptcp_sock *mptcp_sock_of(struct tcp_sock *tp)
{
	struct mptcp_subflow_context *subflow;

	if (!bpf_core_field_exists(struct tcp_sock, is_mptcp) || !tp->is_mptcp)
		return NULL;
	subflow = tp->inet_conn.icsk_ulp_data;
	return (void *)BPF_CORE_READ(subflow, conn);
}

/*
 * The token by which this host knows the connection (RFC 8684 section 3.2), as
 * `ss` and `ip mptcp` show it, or 0 if the socket is no subflow.
 */
static __always_inline u32 mptcp_token(struct tcp_sock *tp)
{
	struct mptcp_sock *msk = mptcp_sock_of(tp);

	return msk ? BPF_CORE_READ(msk, token) : 0;
}

/* The token; of a listener, which has none, the address of the socket above; else 0. */
static __always_inline u64 mptcp_key(struct tcp_sock *tp)
{
	if (tp->inet_conn.icsk_inet.sk.__sk_common.skc_state == TCP_LISTEN)
		return (u64)mptcp_sock_of(tp);
	return mptcp_token(tp);
}

/* The same of the socket that a program holds, which is above the subflows. */
static __always_inline u64 mptcp_key_of_holder(struct sock *sk)
{
	if (!bpf_core_field_exists(struct mptcp_sock, token) || sk->sk_protocol != IPPROTO_MPTCP)
		return 0;
	if (sk->__sk_common.skc_state == TCP_LISTEN)
		return (u64)sk;
	return BPF_CORE_READ((struct mptcp_sock *)sk, token);
}

/* Of a subflow: whether it is the one that the program's own connect() is for. */
static __always_inline bool is_first_subflow(struct tcp_sock *tp)
{
	struct mptcp_sock *msk = mptcp_sock_of(tp);

	return msk && (u64)BPF_CORE_READ(msk, first) == (u64)tp;
}

/* Until 5.14 sock_cgroup_data held the pointer as an integer, `val` (commit 8520e224f547). */
struct sock_cgroup_data___before_5_15 {
	u64 val;
} __attribute__((preserve_access_index));

/* Since 6.1 a cgroup holds pointers to its ancestors, before it held their ids (commit 7f203bc89eb6). */
struct cgroup___before_6_1 {
	u64 ancestor_ids[1];
} __attribute__((preserve_access_index));

static __always_inline struct cgroup *socket_cgroup(const struct sock *sk)
{
	if (!bpf_core_field_exists(sk->sk_cgrp_data))
		return NULL;
	if (bpf_core_field_exists(struct sock_cgroup_data, cgroup))
		return BPF_CORE_READ(sk, sk_cgrp_data.cgroup);
	struct sock_cgroup_data___before_5_15 *old = (void *)&sk->sk_cgrp_data;
	return (void *)(unsigned long)BPF_CORE_READ(old, val);
}

/*
 * The id of the ancestor at `level`, which is not below the cgroup's own. Not inlined: clang would
 * take what only other kernels have out of its condition in a loop.
 */
static __noinline u64 cgroup_ancestor_id(struct cgroup *cgrp, u32 level)
{
	u64 id = 0;

	if (bpf_core_field_exists(struct cgroup, ancestors)) {
		struct cgroup *ancestor = NULL;
		bpf_probe_read_kernel(&ancestor, sizeof(ancestor),
				      (void *)cgrp +
					      bpf_core_field_offset(struct cgroup, ancestors) +
					      level * sizeof(void *));
		return ancestor ? BPF_CORE_READ(ancestor, kn, id) : 0;
	}
	if (bpf_core_field_exists(struct cgroup___before_6_1, ancestor_ids))
		bpf_probe_read_kernel(&id, sizeof(id),
				      (void *)cgrp +
					      bpf_core_field_offset(struct cgroup___before_6_1,
								    ancestor_ids) +
					      level * sizeof(u64));
	return id;
}

/* Containers within containers have a dozen levels. */
#define MOST_CGROUP_LEVELS 64

/*
 * Whether the cgroup is the one with this id, or below it. At which level that one is only the
 * kernel knows: user space in a cgroup namespace sees a part of the tree. Global, so that the
 * verifier follows the loop once, whoever calls it.
 */
__noinline bool in_cgroup(u64 cgroup, u64 id)
{
	struct cgroup *cgrp = (void *)cgroup;
	int level, own;

	/* A kernel may be built without cgroups, and what is global is verified there, too. */
	if (!cgrp || !bpf_core_field_exists(cgrp->level))
		return false;
	own = BPF_CORE_READ(cgrp, level);
	for (level = 0; level < MOST_CGROUP_LEVELS && level <= own; level++) {
		if (cgroup_ancestor_id(cgrp, level) == id)
			return true;
	}
	return false;
}

#endif
