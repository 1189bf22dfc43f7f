/* SPDX-License-Identifier: GPL-2.0 */
/* What the parts of the library's tracing know of one another. */
#ifndef TRANSOM_KERNEL_TRACE_H
#define TRANSOM_KERNEL_TRACE_H

#include <linux/list.h>
#include <net/sock.h>

#include "event.h"

/* What is remembered of a connection, from its first event to its end. */
struct watched {
	struct hlist_node node;
	const struct sock *sk;
	const struct tcp_congestion_ops *algorithm; /* last seen */
	u64 dropped_ns;				    /* when our own queue last dropped a segment */
	u32 clamp;				    /* last seen */
	u32 dup_acks;				    /* in a row */
	u32 last_send_seq;
	u8 origin;
	u8 reneging_told;   /* for rto_cause() */
	bool open;	    /* the event was told */
	bool may_enter_cwr; /* the last segment was an ACK that may end in CWR */
};

/* trace_watched.c */
struct watched *watched_find(const struct sock *sk);
struct watched *watched_begin(const struct sock *sk, u8 origin);
void watched_forget(struct watched *watched);
void watched_forget_all(void);

/* trace_record.c */
void trace_read_state(struct tx_state *to, const struct sock *sk);
void trace_read_open(struct tx_open *to, const struct sock *sk);
void trace_read_sack(struct tx_sack *to, const struct sock *sk);

#endif
