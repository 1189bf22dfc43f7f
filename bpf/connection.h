/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * What we remember of each connection, in the socket's own storage: it goes
 * when the socket goes, and all of it when the programs go. What every segment
 * needs is in addresses.h.
 */
#ifndef TRANSOM_CONNECTION_H
#define TRANSOM_CONNECTION_H

#include "bystander.h"
#include "chosen.h"
#include "filter.h"
#include "process.h"
#include "state.h"
#include "tuned.h"

/* CANDIDATE: wanted, if only a wanted process comes to own it. */
enum { UNDECIDED, WATCHED, IGNORED, CANDIDATE };

struct connection {
	struct identity id;
	u8 decision;
	u8 origin;
	u8 listener;
	u8 reneging_told; /* for rto_cause() */
};

/* A child socket is cloned with the listener's entry, which is how it inherits the owner. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct connection);
} connections SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TX_LOSSES);
	__type(key, __u32);
	__type(value, __u64);
} losses SEC(".maps");

static __always_inline void count_losses(u32 cause, u32 number)
{
	u64 *count = bpf_map_lookup_elem(&losses, &cause);

	if (count)
		*count += number;
}

static __always_inline void count_loss(u32 cause)
{
	count_losses(cause, 1);
}

/* Where events go: the rings (ring.h) or the bounded log (journal.bpf.c). The kind is given last. */
static __always_inline struct tx_event *sink_reserve(void);
static __always_inline void sink_commit(struct tx_event *event, u8 kind);
/* Wakes the reader, if there is one. */
static __always_inline void sink_wake(void);

static __always_inline struct connection *connection_of(struct sock *sk, bool create)
{
	struct connection *conn;

	conn = bpf_sk_storage_get(&connections, sk, NULL, 0);
	if (conn || !create)
		return conn;
	conn = bpf_sk_storage_get(&connections, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	/* NULL also when another CPU has just made it (bpf_local_storage_update): then it is there. */
	if (!conn)
		conn = bpf_sk_storage_get(&connections, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!conn)
		count_loss(TX_LOSS_STORAGE);
	return conn;
}

static __always_inline void fill_head(struct tx_event *event, const struct identity *id, u8 where,
				      u32 aux0, u32 aux1)
{
	event->head.time_ns = bpf_ktime_get_boot_ns();
	event->head.cookie = id->cookie;
	event->head.tgid = id->tgid;
	event->head.where = where;
	event->head.aux[0] = aux0;
	event->head.aux[1] = aux1;
}

/* Before the other side has answered, the options are only what was offered. */
static __always_inline u32 window_scaling(struct sock *sk, struct tcp_sock *tp, u8 where)
{
	if (sk->__sk_common.skc_state == TCP_SYN_SENT && where != TX_AT_SET_STATE)
		return 0;
	return TX_WSCALE_KNOWN | BPF_CORE_READ_BITFIELD(tp, rx_opt.snd_wscale) |
	       BPF_CORE_READ_BITFIELD(tp, rx_opt.rcv_wscale) << 4;
}

/* No event tells of them. The SYN is one of the bytes that the kernel counts as acknowledged. */
static __always_inline u32 early_bytes(struct tcp_sock *tp, u32 origin)
{
	const u64 most = ~0U >> TX_EARLY_SHIFT;
	u64 bytes = 0;

	if (origin == TX_ACCEPT)
		bytes = tp->bytes_received;
	else if (origin == TX_CONNECT && tp->bytes_acked)
		bytes = tp->bytes_acked - 1;
	return bytes < most ? bytes : most;
}

static __noinline void emit_identity(const struct identity *id, struct tcp_sock *tp, u8 kind,
				     u8 where, u32 aux0)
{
	struct tx_event *event;
	struct sock *sk = (struct sock *)tp;
	u32 opened = 0;

	if (!id || !tp)
		return;
	event = sink_reserve();
	if (!event)
		return;
	if (kind == TX_OPEN)
		opened = window_scaling(sk, tp, where) | early_bytes(tp, aux0) << TX_EARLY_SHIFT;
	fill_head(event, id, where, aux0, opened);
	read_open(&event->open, sk, tp);
	__builtin_memcpy(event->open.comm, id->comm, 16);
	sink_commit(event, kind);
}

/* Nearly all events: `ack` and `send`. */
static __always_inline void emit_state_inline(const struct identity *id, struct sock *sk,
					      struct tcp_sock *tp, u8 kind, u8 where, u32 aux0,
					      u32 aux1, u8 flags)
{
	struct tx_event *event = sink_reserve();

	if (!event)
		return;
	fill_head(event, id, where, aux0, aux1);
	read_state(&event->state, sk, tp);
	event->state.flags |= flags;
	sink_commit(event, kind);
}

static __noinline void emit_rare(const struct identity *id, struct tcp_sock *tp, u32 what, u32 aux0,
				 u32 aux1)
{
	if (id && tp)
		emit_state_inline(id, (struct sock *)tp, tp, what, what >> 8, aux0, aux1,
				  what >> 16);
}

/* A function of BPF has at most five arguments. */
static __always_inline void emit_state(const struct identity *id, struct tcp_sock *tp, u8 kind,
				       u8 where, u32 aux0, u32 aux1, u8 flags)
{
	emit_rare(id, tp, kind | where << 8 | flags << 16, aux0, aux1);
}

/* What Transom itself did. */
static __noinline void report_action(const struct identity *id, struct tcp_sock *tp,
				     const struct tx_tuned *tuned, u8 where)
{
	const struct tx_wish *wish;

	if (!id || !tp || !tuned)
		return;
	wish = &tuned->wish;
	emit_state(id, tp, TX_ACTION, where,
		   wish->reason | wish->rule << 8 | wish->named << 16 |
			   (wish->initial_window & 0xff) << 24,
		   wish->steady.cap, 0);
}

/*
 * Window limits and algorithms change outside the code we probe; compare at each
 * event.
 */
static __always_inline void notice_changes(struct by_address *entry, struct sock *sk,
					   struct tcp_sock *tp, u8 where)
{
	u32 clamp = tp->snd_cwnd_clamp, old = entry->clamp;
	u64 algorithm = (u64)tp->inet_conn.icsk_ca_ops;
	struct tx_tuned *tuned;

	if (algorithm != entry->algorithm) {
		entry->algorithm = algorithm;
		emit_identity(&entry->id, tp, TX_ALGORITHM, where, 0);
	}
	if (clamp != old) {
		entry->clamp = clamp;
		emit_state(&entry->id, tp, TX_CLAMP, where, old, clamp, 0);
	}
	tuned = new_action(sk, &entry->actions, &entry->action);
	if (tuned)
		report_action(&entry->id, tp, tuned, where);
}

/* The first look at a connection whose addresses are complete: wanted or not, for good. */
static __noinline bool decide(struct connection *conn, struct sock *sk, u8 where)
{
	struct tx_open who;
	u8 state;

	if (!conn || !sk)
		return false;
	state = sk->__sk_common.skc_state;
	/*
	 * connect() has not chosen a port yet, or a child is still being copied;
	 * when a child leaves SYN_RECV, which is told before it is done, it is whole.
	 * An attempt that ends has given its port back before that is told. One of which nothing
	 * left was refused by connect() itself.
	 */
	if (state == TCP_SYN_RECV && where != TX_AT_SET_STATE)
		return false;
	if (where == TX_AT_SET_STATE && has_never_left(sk))
		return false;
	if (!sk->__sk_common.skc_num && (!conn->origin || where != TX_AT_SET_STATE))
		return false;
	read_whereabouts(&who, sk);
	if (!who.local_port)
		return false;
	if (!connection_wanted(&who, sk)) {
		conn->decision = IGNORED;
		return false;
	}
	conn->decision = CANDIDATE;
	return true;
}

static __noinline bool start_watching(struct connection *conn, struct sock *sk, struct tcp_sock *tp,
				      u8 where)
{
	struct by_address *entry;

	if (!conn || !sk || !tp || !process_wanted(conn->id.tgid))
		return false;
	conn->decision = WATCHED;
	forget_bystander(sk);
	conn->id.cookie = bpf_get_socket_cookie(sk);
	entry = remember_address((u64)sk, &conn->id);
	if (entry) {
		entry->clamp = tp->snd_cwnd_clamp;
		entry->algorithm = (u64)tp->inet_conn.icsk_ca_ops;
		/* Who accepts it is not yet known; nobody touches a subflow itself. */
		entry->settled = settings.by_choice || mptcp_token(tp) ||
				 (conn->id.tgid && conn->origin != TX_ACCEPT);
		if (conn->origin)
			expect_send(entry, tp->snd_nxt);
	} else {
		count_loss(TX_LOSS_STORAGE);
	}
	emit_identity(&conn->id, tp, TX_OPEN, where, conn->origin ?: TX_EXISTING);
	return true;
}

/* A socket whose end was not seen has left its entry behind, for another one at its address. */
static __always_inline bool is_of(const struct by_address *entry, const struct sock *sk)
{
	return entry->id.cookie == (u64)sk->__sk_common.skc_cookie.counter;
}

/* `send` may have seen a new one. */
static __always_inline void take_seen_owner(struct connection *conn, const struct by_address *entry)
{
	if (conn->id.tgid != entry->id.tgid)
		conn->id = entry->id;
}

/* A choice that is over: the entry goes, by which each segment finds the connection. */
static __noinline int leave(struct sock *sk, struct tx_chosen *chosen)
{
	struct connection *conn;

	if (!sk || !chosen || chosen->over != TX_CHOSEN_OVER)
		return 0;
	chosen->over = TX_CHOSEN_LEFT;
	conn = connection_of(sk, false);
	if (conn && conn->decision == WATCHED) {
		forget_address((u64)sk);
		conn->decision = UNDECIDED;
	}
	return 0;
}

/* Which choice is to be followed. What nobody chose costs this one look. */
static __always_inline struct tx_chosen *choice_of(struct sock *sk)
{
	struct tx_chosen *chosen = bpf_sk_storage_get(&transom_chosen, sk, NULL, 0);

	if (!chosen || !chosen->over)
		return chosen;
	leave(sk, chosen);
	return NULL;
}

/* The handshake ends just now: the event of a change of state comes before the change. */
static __always_inline bool is_opening(const struct sock *sk)
{
	u8 state = sk->__sk_common.skc_state;

	return state == TCP_SYN_SENT || state == TCP_SYN_RECV;
}

/* The entry of a socket that is to be recorded, or NULL. */
static __always_inline struct connection *watched(struct sock *sk, struct tcp_sock *tp, u8 where)
{
	struct tx_chosen *chosen = settings.by_choice ? choice_of(sk) : NULL;
	struct connection *conn;
	struct by_address *entry;

	if (settings.by_choice && !chosen)
		return NULL;
	conn = connection_of(sk, true);
	if (!conn)
		return NULL;
	if (conn->decision != WATCHED) {
		if (chosen) {
			conn->id.tgid = chosen->tgid;
			__builtin_memcpy(conn->id.comm, chosen->comm, 16);
			conn->origin = is_opening(sk) ? chosen->origin : 0;
		}
		if (conn->decision == IGNORED || conn->listener)
			return NULL;
		if (conn->decision == UNDECIDED && !decide(conn, sk, where))
			return NULL;
		if (!start_watching(conn, sk, tp, where))
			return NULL;
	}
	/* A connection that has ended has none, although a reset may follow. */
	entry = find_address((u64)sk);
	if (entry && is_of(entry, sk)) {
		notice_changes(entry, sk, tp, where);
		take_seen_owner(conn, entry);
	}
	return conn;
}

/* Not wanted, unless another process comes to own it, which `touched` sees, or it connects again. */
static __noinline int pass_over(struct sock *sk)
{
	struct connection *conn = sk ? connection_of(sk, false) : NULL;

	if (conn && (conn->decision == IGNORED || conn->decision == CANDIDATE))
		note_bystander(sk, conn->id.tgid);
	return 0;
}

/* The first time, or while it is not wanted: with socket storage. */
static __noinline bool find_watched(struct sock *sk, struct tcp_sock *tp, u8 where)
{
	struct by_address *entry = sk ? find_address((u64)sk) : NULL;

	if (!sk || !tp)
		return false;
	if (entry && !is_of(entry, sk))
		forget_address((u64)sk);
	if (!watched(sk, tp, where)) {
		if (!settings.by_choice)
			pass_over(sk);
		return false;
	}
	if (find_address((u64)sk))
		return true;
	count_loss(TX_LOSS_STORAGE);
	return false;
}

/* The same as `watched` for what happens with each segment. */
static __always_inline struct by_address *watched_entry(struct sock *sk, struct tcp_sock *tp,
							u8 where)
{
	struct by_address *entry = find_address((u64)sk);

	if (!entry || !is_of(entry, sk)) {
		if (is_bystander(sk) || !find_watched(sk, tp, where))
			return NULL;
		entry = find_address((u64)sk);
		if (!entry)
			return NULL;
	} else if (settings.by_choice && !choice_of(sk)) {
		return NULL;
	}
	notice_changes(entry, sk, tp, where);
	return entry;
}

/* Where each segment finds it. */
static __always_inline void share_owner(struct connection *conn, struct sock *sk)
{
	struct by_address *entry = find_address((u64)sk);

	if (!entry || !is_of(entry, sk))
		return;
	entry->id = conn->id;
	entry->settled = true;
}

/* The process that runs now uses this socket. Only where it is not softirq's victim. */
static __always_inline void set_owner(struct connection *conn, struct sock *sk)
{
	read_current_process(&conn->id.tgid, conn->id.comm);
	share_owner(conn, sk);
}

#endif
