/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/* Reading a TCP segment in the kernel's memory, and the error events that it tells. */
#ifndef TRANSOM_SEGMENT_H
#define TRANSOM_SEGMENT_H

#include "ack.h"
#include "connection.h"

/* The header and the first word of the options; plain loads, one copy. */
struct header {
	__be16 source;
	__be16 dest;
	__be32 seq;
	__be32 ack_seq;
	__u8 offset; /* upper four bits, in words */
	__u8 flags;
	__be16 window;
	__be16 check;
	__be16 urgent;
	__u32 option;
};

/* Each load costs; a segment on its way in or out is asked for other fields. */
enum { IN_SEGMENT = 1 << 3 | 1 << 5, OUT_SEGMENT = 1 << 0 | 1 << 1 | 1 << 3 };

/* Fills in these words of it: 0 ports, 1 seq, 2 ack_seq, 3 offset to window, 5 option. */
static __always_inline bool read_header(struct header *to, const unsigned char *segment, u32 which)
{
	u32 *words = (u32 *)to;

	if (!bpf_ksym_exists(bpf_rdonly_cast))
		return !bpf_probe_read_kernel(to, sizeof(*to), segment);
	for (int i = 0; i < 5; i++)
		if (which & 1 << i)
			words[i] = KERNEL_AT(union tcp_word_hdr, segment)->words[i];
	if (which & 1 << 5)
		to->option = KERNEL_AT(union tcp_word_hdr, segment + 4)->words[4];
	return true;
}

static __always_inline u32 header_length(const struct header *th)
{
	return (th->offset >> 4) * 4;
}

/*
 * The options are parsed here, not on the stack: verifiers up to 6.18 lose
 * track of whose frame `offset + stack pointer` lies in.
 */
struct options {
	u8 bytes[OPTIONS_ROOM];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct options);
} scratch SEC(".maps");

/* Copies the blocks of the SACK option into `sack`; returns how many. */
static __noinline u32 parse_sack(struct tx_sack *sack, const unsigned char *options, u32 length)
{
	u32 zero = 0;
	struct options *copy = bpf_map_lookup_elem(&scratch, &zero);

	if (!sack || !copy || length > MOST_OPTIONS)
		return 0;
	if (bpf_probe_read_kernel(copy->bytes, length & 63, options)) {
		count_loss(TX_LOSS_SEGMENT);
		return 0;
	}
	return read_sack(sack->blocks, copy->bytes, length);
}

static __noinline bool emit_sack(struct by_address *entry, struct tcp_sock *tp,
				 const unsigned char *options, u32 length, u32 ack)
{
	struct tx_sack sack = {};
	struct tx_event *event;
	u32 blocks;

	if (!entry || !tp)
		return false;
	blocks = parse_sack(&sack, options, length);
	if (!blocks)
		return false;
	event = sink_reserve();
	if (!event)
		return true;
	fill_head(event, &entry->id, TX_AT_RCV_ESTABLISHED, blocks,
		  is_dsack(sack.blocks, blocks, ack));
	sack.cwnd = tp->snd_cwnd;
	sack.ssthresh = tp->snd_ssthresh;
	sack.snd_una = tp->snd_una;
	sack.snd_nxt = tp->snd_nxt;
	sack.packets_out = tp->packets_out;
	sack.sacked_out = tp->sacked_out;
	sack.lost_out = tp->lost_out;
	sack.retrans_out = tp->retrans_out;
	sack.ca_state = BPF_CORE_READ_BITFIELD(tp, inet_conn.icsk_ca_state);
	sack.tcp_state = tp->inet_conn.icsk_inet.sk.__sk_common.skc_state;
	event->sack = sack;
	sink_commit(event, TX_SACK);
	return true;
}

static __always_inline bool repeats_ack(const struct header *th, struct tcp_sock *tp, u32 payload,
					bool has_sack)
{
	struct lone_ack ack = {.flags = th->flags, .has_sack = has_sack};

	if (payload || !tp->packets_out)
		return false;
	ack.number = __builtin_bswap32(th->ack_seq);
	ack.window = (u32)__builtin_bswap16(th->window)
		     << BPF_CORE_READ_BITFIELD(tp, rx_opt.snd_wscale);
	return is_dup_ack(&ack, tp->snd_una, tp->snd_wnd);
}

static __always_inline u32 gso_segments(const struct sk_buff *skb)
{
	struct skb_shared_info *info = (void *)(skb->head + skb->end);
	u16 segments = 0;

	if (bpf_ksym_exists(bpf_rdonly_cast))
		segments = KERNEL_AT(struct skb_shared_info, info)->gso_segs;
	else
		bpf_probe_read_kernel(&segments, sizeof(segments),
				      (void *)info + bpf_core_field_offset(struct skb_shared_info,
									   gso_segs));
	return segments ?: 1;
}

#define MOST_JOINED_ACKS 64

/*
 * The error events that the segment itself tells, on top of its `ack`. Returns
 * how many duplicate ACKs in a row there are now.
 */
static __noinline u32 emit_segment_errors(struct by_address *entry, struct tcp_sock *tp,
					  const struct header *th, const struct sk_buff *skb,
					  u32 payload)
{
	const unsigned char *segment;
	u32 length, ack, joined, in_a_row;
	bool has_sack = false;

	if (!entry || !tp || !th || !skb)
		return 0;
	in_a_row = entry->dup_acks;
	segment = skb->data;
	length = header_length(th);
	ack = __builtin_bswap32(th->ack_seq);
	/* A lone timestamp is what nearly every segment carries. */
	if (length > TCP_HEADER && !(length == 32 && th->option == OPTION_TIMESTAMP_ONLY))
		has_sack = emit_sack(entry, tp, segment + TCP_HEADER, length - TCP_HEADER, ack);
	if (repeats_ack(th, tp, payload, has_sack)) {
		/* Equal ones that waited for the socket's lock are joined; tcp_ack() counts each. */
		joined = gso_segments(skb);
		for (u32 i = 0; i < MOST_JOINED_ACKS && i < joined; i++)
			emit_state(&entry->id, tp, TX_DUP_ACK, TX_AT_RCV_ESTABLISHED, ++in_a_row,
				   has_sack, 0);
	} else if (ack != tp->snd_una) {
		in_a_row = 0;
	}
	if (!th->window && !(th->flags & TH_RST))
		emit_state(&entry->id, tp, TX_ZERO_WINDOW, TX_AT_RCV_ESTABLISHED, TX_RECEIVED, 0,
			   0);
	return in_a_row;
}

#endif
