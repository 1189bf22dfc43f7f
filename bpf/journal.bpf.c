/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * The last so many events, kept in the kernel with no process of ours, and a
 * file in bpffs that prints them: what /proc/sane_kernel_tcpip was to the
 * papers' phone (DICOMO 2011, figures 3 and 4).
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "kprobes.h"
#include "lifecycle.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct entry {
	u64 sequence; /* of the event in it, from 1; 0 while it is written */
	u64 next;     /* what `sequence` becomes when the event is whole */
	struct tx_event event;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 50000); /* user space: journal_capacity */
	__type(key, __u32);
	__type(value, struct entry);
} entries SEC(".maps");

/* Events ever written. */
u64 total = 0;

/* `total` as the reader met it at its first line. */
u64 total_at_open = 0;

static struct entry *entry_at(u64 sequence)
{
	u32 slot = sequence % settings.journal_capacity;

	return bpf_map_lookup_elem(&entries, &slot);
}

static __always_inline struct tx_event *sink_reserve(void)
{
	u64 sequence = __sync_fetch_and_add(&total, 1);
	struct entry *entry = entry_at(sequence);

	if (!entry)
		return NULL;
	entry->sequence = 0;
	entry->next = sequence + 1;
	entry->event.head.cpu = bpf_get_smp_processor_id();
	return &entry->event;
}

static __always_inline void sink_commit(struct tx_event *event, u8 kind)
{
	struct entry *entry = (void *)event - __builtin_offsetof(struct entry, event);

	event->head.kind = kind;
	entry->sequence = entry->next;
}

static __always_inline void sink_wake(void)
{
}

/* What one line of the log says, whichever body it comes from. */
struct line {
	u32 cwnd, ssthresh, rcv_nxt, snd_nxt, snd_una, ca_state, rto_us;
};

static __always_inline bool line_of(const struct tx_event *event, struct line *line)
{
	switch (event->head.kind) {
	case TX_OPEN:
	case TX_OWNER:
	case TX_ALGORITHM:
	case TX_LOST:
		return false;
	case TX_SACK:
		line->cwnd = event->sack.cwnd;
		line->ssthresh = event->sack.ssthresh;
		line->rcv_nxt = 0;
		line->snd_nxt = event->sack.snd_nxt;
		line->snd_una = event->sack.snd_una;
		line->ca_state = event->sack.ca_state;
		line->rto_us = 0;
		return true;
	default:
		line->cwnd = event->state.cwnd;
		line->ssthresh = event->state.ssthresh;
		line->rcv_nxt = event->state.rcv_nxt;
		line->snd_nxt = event->state.snd_nxt;
		line->snd_una = event->state.snd_una;
		line->ca_state = event->state.ca_state;
		line->rto_us = event->state.rto_us;
		return true;
	}
}

/* As crates/event/src/names.rs writes them. */
static const char algorithm_names[][8] = {"before", "steady", "reno", "cubic",
					  "bbr",    "dctcp",  "other"};
static const char reason_names[TX_REASONS][20] = {
	"unknown",     "by_hand",  "new_connection", "rule_matched",
	"rule_over",   "unstable", "guard_loss",     "guard_rtt_inflation",
	"guard_retry", "cleared",  "peers",
};

/* What Transom itself did, after the paper's line. */
static __always_inline void print_action(struct seq_file *seq, const struct tx_head *head)
{
	u32 what = head->aux[0], reason = what & 0xff, algorithm = what >> 16 & 0xff;
	const char *algorithm_name, *reason_name;

	if (reason >= TX_REASONS)
		reason = 0;
	if (algorithm > TX_ALGORITHM_DCTCP)
		algorithm = TX_ALGORITHM_DCTCP + 1;
	algorithm_name = algorithm_names[algorithm];
	reason_name = reason_names[reason];
	BPF_SEQ_PRINTF(seq, " action=%s cap=%u rule=%u because=%s", algorithm_name, head->aux[1],
		       what >> 8 & 0xff, reason_name);
}

/* The paper's phone had HZ = 100. */
#define US_PER_PAPER_JIFFY 10000

static __always_inline void print_line(struct seq_file *seq, const struct entry *entry,
				       u64 sequence)
{
	const struct tx_head *head = &entry->event.head;
	u64 index = sequence % settings.journal_capacity;
	struct line line;

	if (!line_of(&entry->event, &line))
		return;
	BPF_SEQ_PRINTF(seq,
		       "%llu %06llu parm,Type=%u ,PID=%u ,cwnd=%u ,send_ssthresh=%u ,rcv_nxt= %u ,",
		       head->time_ns, index, head->kind, head->tgid, line.cwnd, line.ssthresh,
		       line.rcv_nxt);
	BPF_SEQ_PRINTF(seq, "snd_nxt= %u ,snd_una= %u ,ca_state= %u , rto=%u [log %llu/%llu/%llu]",
		       line.snd_nxt, line.snd_una, line.ca_state, line.rto_us / US_PER_PAPER_JIFFY,
		       index, settings.journal_capacity - 1, sequence);
	if (head->kind == TX_ACTION)
		print_action(seq, head);
	BPF_SEQ_PRINTF(seq, "\n");
}

/* Called once an element; the element's place in the row is all we take from it. */
SEC("iter/bpf_map_elem")
int print_journal(struct bpf_iter__bpf_map_elem *ctx)
{
	u64 sequence, oldest;
	struct entry *entry;
	u32 *key = ctx->key;

	if (!key)
		return 0;
	sequence = *key;
	if (!sequence)
		total_at_open = total;
	oldest = total_at_open > settings.journal_capacity
			 ? total_at_open - settings.journal_capacity
			 : 0;
	sequence += oldest;
	if (sequence >= total_at_open)
		return 0;
	entry = entry_at(sequence);
	/* Being written now, or overwritten since we began. */
	if (!entry || entry->sequence != sequence + 1)
		return 0;
	print_line(ctx->meta->seq, entry, sequence);
	return 0;
}
