/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/* Which new data was seen on its way out, and how much left unseen. */
#ifndef TRANSOM_SENDS_H
#define TRANSOM_SENDS_H

#include "ack.h"
#include "connection.h"

static __always_inline void count_unseen(struct tcp_sock *tp, u32 bytes)
{
	u32 mss = tp->mss_cache ?: 1;

	count_losses(TX_LOSS_UNSEEN_SEND, (bytes + mss - 1) / mss);
}

/*
 * New data is seen for the first time only once: each device of a stack queues
 * it, and what a device refuses comes again. Data that is skipped has left
 * without this probe.
 */
static __always_inline bool is_first_send(struct by_address *entry, struct tcp_sock *tp, u32 seq,
					  u32 payload)
{
	u32 known = entry->next_send_seq, end = seq + payload;

	if (entry->sends_known && seq != known) {
		if (is_before(seq, known)) {
			if (is_before(known, end))
				entry->next_send_seq = end;
			return false;
		}
		count_unseen(tp, seq - known);
	}
	expect_send(entry, end);
	return true;
}

/*
 * The same of a segment that closes the window. Many have one sequence number, but each keeps the
 * time at which TCP sent it, on a stack of devices, or has none left behind a bridge.
 */
static __always_inline bool is_first_zero_window(struct by_address *entry,
						 const struct sk_buff *skb, u32 seq)
{
	u64 sent_ns = skb->tstamp, last_ns = entry->zero_window_ns;

	/* What a device has received, here or in another namespace, may have the time of that. */
	if (skb->skb_iif || sent_ns < last_ns)
		return false;
	if (sent_ns == last_ns && !is_before(entry->zero_window_seq, seq))
		return false;
	entry->zero_window_ns = sent_ns;
	entry->zero_window_seq = seq;
	return true;
}

/* Data that left unseen after the last `send`. */
static __always_inline void count_unseen_end(struct by_address *entry, struct tcp_sock *tp, int old)
{
	u32 end = tp->snd_nxt;

	if (!entry || !entry->sends_known)
		return;
	/* The FIN takes a sequence number. */
	if (old != TCP_ESTABLISHED && old != TCP_CLOSE_WAIT)
		end--;
	if (is_before(entry->next_send_seq, end))
		count_unseen(tp, end - entry->next_send_seq);
}

#endif
