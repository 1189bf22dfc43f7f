/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/* Events into a ring buffer, for `transom record`, `log` and `top`. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "kprobes.h"
#include "lifecycle.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/*
 * A ring a CPU: one ring for all costs each event the cache lines that the
 * other CPUs have just written. Number and sizes are set before loading.
 */
struct ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct ring);
} rings SEC(".maps");

/* The reader looks every few ms by itself; it is woken early only when this much waits. */
const volatile u64 wake_at_bytes = 1 << 19;

static __always_inline void *ring_here(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&rings, &cpu);
}

static struct tx_event *sink_reserve(void)
{
	void *ring = ring_here();
	struct tx_event *event = NULL;

	if (ring)
		event = bpf_ringbuf_reserve(ring, sizeof(*event), 0);
	if (!event)
		count_loss(TX_LOSS_RING);
	return event;
}

static void sink_commit(struct tx_event *event)
{
	u64 flags = BPF_RB_NO_WAKEUP;
	void *ring;

	/* Asking costs: about each 64th event does. */
	if (!(event->head.time_ns >> 4 & 63)) {
		ring = ring_here();
		if (ring && bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA) >= wake_at_bytes)
			flags = BPF_RB_FORCE_WAKEUP;
	}
	bpf_ringbuf_submit(event, flags);
}
