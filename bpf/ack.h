/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * What a segment says (RFC 9293, RFC 2018, RFC 2883), and what an event is
 * told to be because of: plain C, for the BPF programs and for the library's
 * own probes (linux/arch/kernel/trace.c). Numbers are in host byte order.
 */
#ifndef TRANSOM_ACK_H
#define TRANSOM_ACK_H

#include "event.h"

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

#define MOST_OPTIONS 40
#define MOST_SACK_BLOCKS 4

/* The last index that is read, masked, is 63 + 7. */
#define OPTIONS_ROOM 80

static __always_inline bool is_before(__u32 a, __u32 b)
{
	return (__s32)(a - b) < 0;
}

/* Keeps the compiler from removing a mask of `index` that only the verifier needs. */
#define HIDE_RANGE(index) asm volatile("" : "+r"(index))

/*
 * Copies the blocks of the SACK option into `blocks`; returns how many. The
 * masks change no index of options that are at most MOST_OPTIONS long: they
 * are for the verifier. Without one range of `at` for all ways through the loop,
 * that of 6.1 follows each of them and gives up after a million instructions.
 */
static __always_inline __u32 read_sack(__u32 blocks[][2], const __u8 *options, __u32 length)
{
	__u32 at = 0, count = 0;

	for (int i = 0; i < MOST_OPTIONS; i++) {
		__u8 kind, size;

		HIDE_RANGE(at);
		at &= 63;
		kind = options[at];
		size = options[at + 1];
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
		count = (size - 2) / 8;
		break;
	}
	at += 2;
	for (__u32 i = 0; i < MOST_SACK_BLOCKS; i++) {
		__u32 left, right;

		if (i >= count || at > MOST_OPTIONS)
			break;
		__builtin_memcpy(&left, &options[at & 63], 4);
		__builtin_memcpy(&right, &options[(at & 63) + 4], 4);
		blocks[i][0] = __builtin_bswap32(left);
		blocks[i][1] = __builtin_bswap32(right);
		at += 8;
	}
	return count < MOST_SACK_BLOCKS ? count : MOST_SACK_BLOCKS;
}

/* RFC 2883: the first block repeats what the ACK covers, or what the second block holds. */
static __always_inline bool is_dsack(const __u32 blocks[][2], __u32 count, __u32 ack)
{
	if (is_before(blocks[0][0], ack))
		return true;
	return count > 1 && !is_before(blocks[0][0], blocks[1][0]) &&
	       !is_before(blocks[1][1], blocks[0][1]);
}

/* A segment without payload that came while segments were out. */
struct lone_ack {
	__u32 number;
	__u32 window; /* bytes */
	__u8 flags;
	bool has_sack;
};

/*
 * RFC 5681 section 2: no SYN or FIN, the acknowledgment of before, and either
 * the window of before or SACK blocks (RFC 6675 section 2).
 */
static __always_inline bool is_dup_ack(const struct lone_ack *ack, __u32 snd_una, __u32 snd_wnd)
{
	if (ack->flags & (TH_SYN | TH_FIN | TH_RST) || ack->number != snd_una)
		return false;
	return ack->has_sack || ack->window == snd_wnd;
}

/*
 * Why the sender enters Loss, from `ca_state`. The timer's handler clears
 * icsk_pending first; nothing else that ends in Loss does. SACK that is taken
 * back ends the first wait early, and the kernel's mark of it stays until Loss
 * is left: once `told`, it is the timer as ever.
 */
static __always_inline __u32 rto_cause(__u8 ca_state, __u8 pending, bool reneging, __u8 retransmits,
				       __u8 *told)
{
	if (ca_state != TCP_CA_Loss)
		*told = 0;
	if (pending)
		return TX_RTO_PMTU;
	if (!reneging || retransmits || *told)
		return TX_RTO_TIMER;
	*told = 1;
	return TX_RTO_RENEGING;
}

static __always_inline __u32 retransmit_reason(__u8 tcp_state, __u8 ca_state, __u8 pending)
{
	if (tcp_state == TCP_SYN_SENT)
		return TX_RETRANS_SYN;
	if (ca_state == TCP_CA_Loss)
		return pending ? TX_RETRANS_SLOW_START : TX_RETRANS_RTO;
	if (ca_state < TCP_CA_Recovery && pending == ICSK_TIME_LOSS_PROBE)
		return TX_RETRANS_TLP;
	return TX_RETRANS_FAST;
}

#endif
