/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * The filter of the UDP socket of `transom-peer`: datagrams that no member of
 * the group has just sent are dropped before they are queued, so that a flood
 * of them neither fills the socket's buffer nor wakes the daemon. The checks
 * are those of crates/peers/src/sieve.rs, which docs/peer.md describes; what
 * passes here is checked again there.
 */
#include "kernel.h"
#include "siphash.h"
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* As the kernel shows a packet to these programs (include/uapi/linux/bpf.h); no relocation. */
struct __sk_buff {
	__u32 len;
};

#define DROP 0
#define NS_PER_SECOND 1000000000
/* For a filter of a UDP socket, a packet begins with the UDP header. */
#define TOPIC_AT 8
#define SEALED_AT (TOPIC_AT + 12)
/* Of a sealed message: what names it, then its mark, then its text. */
#define NAMED_BYTES 13
#define MARK_BYTES 8
#define LOW_5_BYTES 0xffffffffffull

struct sieve_settings {
	__u64 key[2]; /* of the marks */
	__u32 topic[3];
	__u32 version;
	__u32 least, most; /* bytes of a sealed message, both included; at least 24 */
	__u32 per_second;  /* messages of one session, at most */
	__u32 reserved;
};

const volatile struct sieve_settings settings SEC(".rodata.settings") = {
	.least = 37,
	.most = 1137,
	.per_second = 16,
};

/* By session. The one that was seen longest ago makes room. */
struct seen {
	__u32 counter;
	__u32 second;
	__u32 in_second;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct seen);
} sessions SEC(".maps");

enum { PASSED, OTHER_GROUPS, FOREIGN, REPLAYED, FLOOD, VERDICTS };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, VERDICTS);
	__type(key, __u32);
	__type(value, __u64);
} verdicts SEC(".maps");

static __always_inline bool is_of_our_topic(struct __sk_buff *skb)
{
	__u32 topic[3];

	return !bpf_skb_load_bytes(skb, TOPIC_AT, topic, sizeof(topic)) &&
	       topic[0] == settings.topic[0] && topic[1] == settings.topic[1] &&
	       topic[2] == settings.topic[2];
}

/*
 * Whether the mark is the hash of all the rest; `words` are the first three,
 * with the mark across two of them. `length` is at least theirs.
 */
static __always_inline bool is_marked(struct __sk_buff *skb, const __u64 *words, __u32 length)
{
	__u64 mark = words[1] >> 40 | (words[2] & LOW_5_BYTES) << 24;
	__u32 end = SEALED_AT + length, rest = length % 8, at;
	struct siphash hash;
	__u64 word;

	siphash_begin(&hash, settings.key[0], settings.key[1]);
	siphash_word(&hash, words[0]);
	siphash_word(&hash, (words[1] & LOW_5_BYTES) | (words[2] & ~LOW_5_BYTES));
	for (at = SEALED_AT + NAMED_BYTES + MARK_BYTES + 3; at + 8 <= end; at += 8) {
		if (bpf_skb_load_bytes(skb, at, &word, sizeof(word)))
			return false;
		siphash_word(&hash, word);
	}
	/* The rest is the end of the last eight bytes. */
	if (bpf_skb_load_bytes(skb, end - 8, &word, sizeof(word)))
		return false;
	word = rest ? word >> (64 - 8 * rest) : 0;
	return siphash_end(&hash, word, length - MARK_BYTES) == mark;
}

/* Two CPUs may both let the same message pass: user space checks once more. */
static __always_inline __u32 judge_session(__u64 session, __u32 counter)
{
	struct seen *seen = bpf_map_lookup_elem(&sessions, &session);
	__u32 second = bpf_ktime_get_ns() / NS_PER_SECOND;

	if (!seen) {
		struct seen fresh = {.counter = counter, .second = second, .in_second = 1};

		bpf_map_update_elem(&sessions, &session, &fresh, BPF_ANY);
		return PASSED;
	}
	if (counter <= seen->counter)
		return REPLAYED;
	if (seen->second != second) {
		seen->second = second;
		seen->in_second = 0;
	}
	if (seen->in_second >= settings.per_second)
		return FLOOD;
	seen->counter = counter;
	seen->in_second += 1;
	return PASSED;
}

static __always_inline __u32 judge(struct __sk_buff *skb)
{
	__u32 length = skb->len - SEALED_AT;
	__u64 words[3];

	if (!is_of_our_topic(skb))
		return OTHER_GROUPS;
	if (length < settings.least || length > settings.most ||
	    bpf_skb_load_bytes(skb, SEALED_AT, words, sizeof(words)) ||
	    (words[0] & 0xff) != settings.version || !is_marked(skb, words, length))
		return FOREIGN;
	return judge_session(words[0] >> 8 | words[1] << 56, words[1] >> 8);
}

SEC("socket")
int sieve(struct __sk_buff *skb)
{
	__u32 verdict = judge(skb);
	__u64 *count = bpf_map_lookup_elem(&verdicts, &verdict);

	if (count)
		*count += 1;
	return verdict == PASSED ? skb->len : DROP;
}
