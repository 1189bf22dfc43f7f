/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/* How connections come, go and change hands. */
#ifndef TRANSOM_LIFECYCLE_H
#define TRANSOM_LIFECYCLE_H

#include "connection.h"
#include "holder.h"
#include "sends.h"
#include "subflow.h"
#include <bpf/bpf_tracing.h>

/* A child starts as a copy of its listener's entry: keep the owner, forget the rest. */
static __always_inline void become_child(struct connection *conn)
{
	struct identity id = conn->id;

	__builtin_memset(conn, 0, sizeof(*conn));
	conn->id = id;
	conn->origin = TX_ACCEPT;
}

static __always_inline void become_listener(struct sock *sk)
{
	struct connection *conn = connection_of(sk, true);

	if (!conn)
		return;
	conn->listener = true;
	set_owner(conn, sk);
}

static __always_inline void set_connecting_owner(struct connection *conn, struct sock *sk,
						 struct tcp_sock *tp)
{
	read_connecting_process(&conn->id.tgid, conn->id.comm, tp);
	share_owner(conn, sk);
}

/* Before addresses are complete: remember where it came from, say nothing yet. */
static __always_inline void begin(struct sock *sk, struct tcp_sock *tp, int state)
{
	struct connection *conn = connection_of(sk, !settings.by_choice);

	if (!conn)
		return;
	if (settings.by_choice) {
		__builtin_memset(conn, 0, sizeof(*conn));
		return;
	}
	if (state == TCP_SYN_RECV) {
		become_child(conn);
		return;
	}
	/* The same socket may connect again after a failure. */
	__builtin_memset(conn, 0, sizeof(*conn));
	conn->origin = TX_CONNECT;
	set_connecting_owner(conn, sk, tp);
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(tp_state, struct sock *sk, int old, int new)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct connection *conn;

	if (!tp)
		return 0;
	if (new == TCP_LISTEN) {
		if (!settings.by_choice)
			become_listener(sk);
		return 0;
	}
	if (new == TCP_SYN_SENT || new == TCP_SYN_RECV) {
		/* Both ends have sent a SYN: it began with this end's. */
		if (old != TCP_SYN_SENT)
			begin(sk, tp, new);
		return 0;
	}
	if (old == TCP_LISTEN)
		return 0;
	if (new == TCP_CLOSE && is_spare(sk, tp, old)) {
		conn = connection_of(sk, false);
		if (!conn || conn->origin != TX_CONNECT)
			return 0;
	}
	conn = watched(sk, tp, TX_AT_SET_STATE);
	if (!conn)
		return 0;
	emit_state(&conn->id, tp, TX_STATE, TX_AT_SET_STATE, old, new, 0);
	if (new != TCP_CLOSE)
		return 0;
	count_unseen_end(find_address((u64)sk), tp, old);
	emit_state(&conn->id, tp, TX_CLOSE, TX_AT_SET_STATE, sk->sk_err, 0, 0);
	forget_address((u64)sk);
	return 0;
}

/* A process reads or writes: from now on the socket is its own. */
static __always_inline void touched(struct sock *sk, u8 where)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32, old;
	struct by_address *entry = find_address((u64)sk);
	struct connection *conn;
	struct tcp_sock *tp;

	/* Asked once: before 5.16 the verifier forgets what is known of 32 bits in between (354e8f1970f8). */
	if (entry && !is_of(entry, sk))
		entry = NULL;
	/* Nearly always. */
	if (entry && entry->id.tgid == tgid) {
		entry->settled = true;
		return;
	}
	if (!entry && is_bystander_of(sk, tgid))
		return;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return;
	conn = connection_of(sk, true);
	if (!conn)
		return;
	if (entry)
		take_seen_owner(conn, entry);
	old = conn->id.tgid;
	if (old == tgid) {
		share_owner(conn, sk);
		if (!entry)
			pass_over(sk);
		return;
	}
	set_owner(conn, sk);
	if (conn->decision == WATCHED)
		emit_identity(&conn->id, tp, TX_OWNER, where, old);
	else
		watched(sk, tp, where);
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(tp_sendmsg, struct sock *sk)
{
	touched(sk, TX_AT_SENDMSG);
	return 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(tp_recvmsg, struct sock *sk)
{
	touched(sk, TX_AT_RECVMSG);
	return 0;
}

SEC("fentry/tcp_sendmsg")
int BPF_PROG(fentry_sendmsg, struct sock *sk)
{
	touched(sk, TX_AT_SENDMSG);
	return 0;
}

SEC("fentry/tcp_recvmsg")
int BPF_PROG(fentry_recvmsg, struct sock *sk)
{
	touched(sk, TX_AT_RECVMSG);
	return 0;
}

SEC("tp_btf/tcp_rcv_space_adjust")
int BPF_PROG(tp_rcv_space_adjust, struct sock *sk)
{
	touched(sk, TX_AT_RCV_SPACE_ADJUST);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(tp_fork, struct task_struct *parent, struct task_struct *child)
{
	u32 from = parent->tgid, to = child->tgid;
	u8 yes = 1;

	if (settings.filter.follow_children && from != to && bpf_map_lookup_elem(&processes, &from))
		bpf_map_update_elem(&processes, &to, &yes, BPF_ANY);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(tp_exit, struct task_struct *task)
{
	u32 tgid = task->tgid;

	/*
	 * The number may be given to somebody else, once the last thread has gone. The first one goes
	 * before where another calls execve(), or where it has only ended itself.
	 */
	if (!task->signal->live.counter)
		bpf_map_delete_elem(&processes, &tgid);
	return 0;
}

/* A busy one was seen, and opened, before its owner was. */
static __always_inline void owner_found(struct connection *conn, struct sock *sk,
					struct tcp_sock *tp, u8 where)
{
	if (conn->decision != WATCHED)
		return;
	share_owner(conn, sk);
	emit_identity(&conn->id, tp, TX_OWNER, where, 0);
}

/* A byte for what was just told: the walk stops when its reader has so many, and the rings are read. */
static __always_inline void was_told(struct seq_file *seq)
{
	u8 one = 1;

	bpf_seq_write(seq, &one, sizeof(one));
}

/* What was there before us: first who holds it … */
SEC("iter/task_file")
int existing_owners(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct sock *sk = socket_of(ctx);
	struct connection *conn;
	struct tcp_sock *tp;

	if (!sk || !task)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp) {
		found_mptcp_holder(sk, task);
		return 0;
	}
	conn = connection_of(sk, true);
	if (!conn || conn->id.tgid)
		return 0;
	conn->id.tgid = task->tgid;
	read_process_name(conn->id.comm, task);
	owner_found(conn, sk, tp, TX_AT_TASK_FILE);
	was_told(ctx->meta->seq);
	return 0;
}

/* Nobody holds a subflow itself. */
static __always_inline void take_mptcp_owner(struct connection *conn, struct sock *sk,
					     struct tcp_sock *tp)
{
	if (!conn->id.tgid && read_process_of_subflow(&conn->id.tgid, conn->id.comm, tp))
		owner_found(conn, sk, tp, TX_AT_ITERATOR);
}

/* … then what state it is in. */
SEC("iter/tcp")
int existing_connections(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	struct connection *conn;
	struct tcp_sock *tp;
	struct sock *sk;
	u8 state;

	if (!skc)
		return 0;
	tp = bpf_skc_to_tcp_sock(skc);
	if (!tp)
		return 0;
	sk = (struct sock *)tp;
	state = tp->inet_conn.icsk_inet.sk.__sk_common.skc_state;
	conn = connection_of(sk, true);
	if (!conn)
		return 0;
	take_mptcp_owner(conn, sk, tp);
	if (state == TCP_LISTEN)
		conn->listener = true;
	if (state == TCP_LISTEN || conn->decision == WATCHED)
		return 0;
	conn = watched(sk, tp, TX_AT_ITERATOR);
	if (!conn)
		return 0;
	emit_state(&conn->id, tp, TX_STATE, TX_AT_ITERATOR, state, state, 0);
	was_told(ctx->meta->seq);
	return 0;
}

#endif
