/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/* What a TCP segment says: the header and its SACK option (RFC 9293, RFC 2018). */
#ifndef TRANSOM_SEGMENT_H
#define TRANSOM_SEGMENT_H

#include "connection.h"

#define TH_FIN 0x01
#define TH_SYN 0x02
#define TH_RST 0x04
#define TH_ACK 0x10
#define TH_ECE 0x40

#define TCP_HEADER 20
#define OPTION_TIMESTAMP_ONLY 0x0a080101 /* NOP NOP TS 10, as it lies in memory (RFC 7323) */
#define OPTION_EOL 0
#define OPTION_NOP 1
#define OPTION_SACK 5

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

static __always_inline bool read_header(struct header *to, const unsigned char *segment)
{
	u32 *words = (u32 *)to;

	if (!bpf_ksym_exists(bpf_rdonly_cast))
		return !bpf_probe_read_kernel(to, sizeof(*to), segment);
	for (int i = 0; i < 5; i++)
		words[i] = KERNEL_AT(union tcp_word_hdr, segment)->words[i];
	to->option = KERNEL_AT(union tcp_word_hdr, segment + 4)->words[4];
	return true;
}

static __always_inline u32 header_length(const struct header *th)
{
	return (th->offset >> 4) * 4;
}

static __always_inline bool before(u32 a, u32 b)
{
	return (__s32)(a - b) < 0;
}

/*
 * The options are parsed here, not on the stack: verifiers up to 6.18 lose
 * track of whose frame `offset + stack pointer` lies in.
 */
struct options {
	u8 bytes[80]; /* the last index, masked, may be 63 + 7 */
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
	u32 at = 0, blocks = 0;
	struct options *copy = bpf_map_lookup_elem(&scratch, &at);
	u8 *bytes;

	if (!sack || !copy || length > 40)
		return 0;
	bytes = copy->bytes;
	if (bpf_probe_read_kernel(bytes, length & 63, options)) {
		count_loss(TX_LOSS_SEGMENT);
		return 0;
	}
	for (int i = 0; i < 40; i++) {
		u8 kind = bytes[at & 63], size = bytes[(at + 1) & 63];

		if (at >= length || kind == OPTION_EOL)
			return 0;
		if (kind == OPTION_NOP) {
			at++;
			continue;
		}
		if (size < 2 || at + size > length)
			return 0;
		if (kind != OPTION_SACK) {
			at += size;
			continue;
		}
		blocks = (size - 2) / 8;
		break;
	}
	at += 2;
	for (u32 i = 0; i < 4; i++) {
		u32 left, right;

		if (i >= blocks || at > 40)
			break;
		__builtin_memcpy(&left, &bytes[at & 63], 4);
		__builtin_memcpy(&right, &bytes[(at & 63) + 4], 4);
		sack->blocks[i][0] = __builtin_bswap32(left);
		sack->blocks[i][1] = __builtin_bswap32(right);
		at += 8;
	}
	return blocks < 4 ? blocks : 4;
}

/* RFC 2883: the first block repeats what the ACK covers, or what the second block holds. */
static __always_inline bool is_dsack(const struct tx_sack *sack, u32 blocks, u32 ack)
{
	if (before(sack->blocks[0][0], ack))
		return true;
	return blocks > 1 && !before(sack->blocks[0][0], sack->blocks[1][0]) &&
	       !before(sack->blocks[1][1], sack->blocks[0][1]);
}

static __noinline bool emit_sack(struct connection *conn, struct tcp_sock *tp,
				 const unsigned char *options, u32 length, u32 ack)
{
	struct tx_sack sack = {};
	struct tx_event *event;
	u32 blocks;

	if (!conn || !tp)
		return false;
	blocks = parse_sack(&sack, options, length);
	if (!blocks)
		return false;
	event = sink_reserve();
	if (!event)
		return true;
	fill_head(event, &conn->id, TX_AT_RCV_ESTABLISHED, blocks, is_dsack(&sack, blocks, ack));
	sack.cwnd = READ(tp, snd_cwnd);
	sack.ssthresh = READ(tp, snd_ssthresh);
	sack.snd_una = READ(tp, snd_una);
	sack.snd_nxt = READ(tp, snd_nxt);
	sack.packets_out = READ(tp, packets_out);
	sack.sacked_out = READ(tp, sacked_out);
	sack.lost_out = READ(tp, lost_out);
	sack.retrans_out = READ(tp, retrans_out);
	sack.ca_state = READ_BITS(tp, inet_conn.icsk_ca_state);
	sack.tcp_state = READ(tp, inet_conn.icsk_inet.sk.__sk_common.skc_state);
	event->sack = sack;
	sink_commit(event, TX_SACK);
	return true;
}

/*
 * RFC 5681 section 2: outstanding data, no payload, no SYN or FIN, the
 * acknowledgment of before, and either the window of before or SACK blocks
 * (RFC 6675 section 2).
 */
static __always_inline bool is_dup_ack(const struct header *th, struct tcp_sock *tp, u32 payload,
				       bool has_sack)
{
	u32 window;

	if (payload || (th->flags & (TH_SYN | TH_FIN | TH_RST)) || !READ(tp, packets_out))
		return false;
	if (__builtin_bswap32(th->ack_seq) != READ(tp, snd_una))
		return false;
	window = (u32)__builtin_bswap16(th->window) << READ_BITS(tp, rx_opt.snd_wscale);
	return has_sack || window == READ(tp, snd_wnd);
}

static __always_inline u32 gso_segments(const struct sk_buff *skb)
{
	struct skb_shared_info *info = (void *)(READ(skb, head) + READ(skb, end));
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
static __noinline u32 emit_segment_errors(struct connection *conn, struct tcp_sock *tp,
					  const struct header *th, const struct sk_buff *skb,
					  u32 payload)
{
	const unsigned char *segment;
	u32 length, ack, joined, in_a_row;
	bool has_sack = false;

	if (!conn || !tp || !th || !skb)
		return 0;
	in_a_row = conn->dup_acks;
	segment = READ(skb, data);
	length = header_length(th);
	ack = __builtin_bswap32(th->ack_seq);
	/* A lone timestamp is what nearly every segment carries. */
	if (length > TCP_HEADER && !(length == 32 && th->option == OPTION_TIMESTAMP_ONLY))
		has_sack = emit_sack(conn, tp, segment + TCP_HEADER, length - TCP_HEADER, ack);
	if (is_dup_ack(th, tp, payload, has_sack)) {
		/* Equal ones that waited for the socket's lock are joined; tcp_ack() counts each. */
		joined = gso_segments(skb);
		for (u32 i = 0; i < MOST_JOINED_ACKS && i < joined; i++)
			emit_state(&conn->id, tp, TX_DUP_ACK, TX_AT_RCV_ESTABLISHED, ++in_a_row,
				   has_sack, 0);
	} else if (ack != READ(tp, snd_una)) {
		in_a_row = 0;
	}
	if (!th->window && !(th->flags & TH_RST))
		emit_state(&conn->id, tp, TX_ZERO_WINDOW, TX_AT_RCV_ESTABLISHED, TX_RECEIVED, 0, 0);
	return in_a_row;
}

#endif
