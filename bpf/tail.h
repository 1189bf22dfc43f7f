/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * Whether the window is reduced because a tail loss probe has repaired a loss. The kernel enters
 * CWR for it as for a refusal by the device, and has forgotten the probe (tlp_high_seq) in either
 * case before it tells of the change. So the probe is remembered where it is sent.
 */
#ifndef TRANSOM_TAIL_H
#define TRANSOM_TAIL_H

#include "ack.h"
#include "kernel.h"

struct tail_probe {
	u32 end;	/* of all that was sent by then */
	u32 duplicates; /* that the peer had told of by then */
	u8 waits;	/* for the ACK that ends it */
};

/* The last segment is sent once more. */
static __always_inline void probed_tail(struct tail_probe *probe, struct tcp_sock *tp)
{
	probe->end = tp->snd_nxt;
	probe->duplicates = tp->dsack_dups;
	probe->waits = 1;
}

/*
 * Asked where CWR is entered. tcp_process_tlp_ack() does so with the first ACK behind the probe,
 * unless the peer has said before that the tail came twice.
 */
static __always_inline bool has_repaired_tail(const struct tail_probe *probe, struct tcp_sock *tp)
{
	return probe->waits && is_before(probe->end, tp->snd_una) &&
	       tp->dsack_dups == probe->duplicates;
}

/* Every reduction of the window ends the probe (tcp_init_cwnd_reduction(), tcp_enter_loss()). */
static __always_inline void changed_state(struct tail_probe *probe, u8 now)
{
	if (now >= TCP_CA_CWR)
		probe->waits = 0;
}

#endif
