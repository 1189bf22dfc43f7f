/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/* Events into a ring buffer, for `transom record`, `log` and `top`. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "kprobes.h"
#include "lifecycle.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Its size is set before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

/* The reader looks every few ms by itself; it is woken early only when this much waits. */
const volatile u64 wake_at_bytes = 1 << 19;

static struct tx_event *sink_reserve(void)
{
	struct tx_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event)
		count_loss(TX_LOSS_RING);
	return event;
}

static void sink_commit(struct tx_event *event)
{
	u64 flags = BPF_RB_NO_WAKEUP;

	/* Asking costs: about each 64th event does. */
	if (!(event->head.time_ns >> 4 & 63) &&
	    bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) >= wake_at_bytes)
		flags = BPF_RB_FORCE_WAKEUP;
	bpf_ringbuf_submit(event, flags);
}
