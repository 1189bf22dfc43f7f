/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * The way to user space: a ring of records per CPU, in arrays that the reader
 * maps. One ring for all CPUs would cost each event the cache lines that the
 * others have just written; the kernel's own ring buffer costs a lock, a header
 * and a second helper call. crates/monitor/src/rings.rs is the other end.
 */
#ifndef TRANSOM_RING_H
#define TRANSOM_RING_H

#include "connection.h"

/* Numbers of records, counted from the start: they only grow. Each side writes its own cache line. */
struct ring {
	u64 reserved;
	u64 pad[7];
	u64 taken;
	u64 pad2[7];
};

/* One per CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ring);
} rings SEC(".maps");

/* The records of the first CPU, then those of the second, … */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tx_event);
} records SEC(".maps");

/* Wakes the reader, which otherwise looks by itself: says only that much waits. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} doorbell SEC(".maps");

static __always_inline void sink_wake(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	bpf_ringbuf_output(&doorbell, &cpu, sizeof(cpu), BPF_RB_FORCE_WAKEUP);
}

static __always_inline struct tx_event *sink_reserve(void)
{
	u32 cpu = bpf_get_smp_processor_id(), size = 1U << settings.ring_bits, at;
	struct ring *ring = bpf_map_lookup_elem(&rings, &cpu);
	struct tx_event *event;
	u64 waiting, number;

	if (!ring)
		return NULL;
	waiting = ring->reserved - ring->taken;
	/* An eighth stays free for programs that interrupt one another just here. */
	if (waiting >= size - (size >> 3)) {
		count_loss(TX_LOSS_RING);
		return NULL;
	}
	if (waiting == settings.ring_wake_at)
		sink_wake();
	number = __sync_fetch_and_add(&ring->reserved, 1);
	at = (cpu << settings.ring_bits) | (number & (size - 1));
	event = bpf_map_lookup_elem(&records, &at);
	if (!event)
		return NULL;
	/* The lap tells this record from the one that lay here a lap ago; no kind yet: not whole. */
	event->head.kind = 0;
	event->head.cpu = (number >> settings.ring_bits) + 1;
	return event;
}

/* The kind comes last: with it the record is whole. */
static __always_inline void sink_commit(struct tx_event *event, u8 kind)
{
#if defined(__TARGET_ARCH_x86)
	/* Stores are seen in their order there. */
	barrier();
	event->head.kind = kind;
#else
	u32 *word = (u32 *)&event->head.cpu;

	__sync_lock_test_and_set(word, *word | (u32)kind << 16);
#endif
}

#endif
