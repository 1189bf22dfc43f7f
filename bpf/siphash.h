/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * SipHash-2-4 (Aumasson, Bernstein 2012): a keyed hash of 64 bits, word by
 * word. The machines that we run on are little-endian, as its words are.
 */
#ifndef TRANSOM_SIPHASH_H
#define TRANSOM_SIPHASH_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>

struct siphash {
	__u64 v0, v1, v2, v3;
};

static __always_inline __u64 rotate_left(__u64 word, int bits)
{
	return word << bits | word >> (64 - bits);
}

static __always_inline void siphash_round(struct siphash *hash)
{
	hash->v0 += hash->v1;
	hash->v2 += hash->v3;
	hash->v1 = rotate_left(hash->v1, 13) ^ hash->v0;
	hash->v3 = rotate_left(hash->v3, 16) ^ hash->v2;
	hash->v0 = rotate_left(hash->v0, 32);
	hash->v2 += hash->v1;
	hash->v0 += hash->v3;
	hash->v1 = rotate_left(hash->v1, 17) ^ hash->v2;
	hash->v3 = rotate_left(hash->v3, 21) ^ hash->v0;
	hash->v2 = rotate_left(hash->v2, 32);
}

static __always_inline void siphash_begin(struct siphash *hash, __u64 key0, __u64 key1)
{
	hash->v0 = key0 ^ 0x736f6d6570736575;
	hash->v1 = key1 ^ 0x646f72616e646f6d;
	hash->v2 = key0 ^ 0x6c7967656e657261;
	hash->v3 = key1 ^ 0x7465646279746573;
}

static __always_inline void siphash_word(struct siphash *hash, __u64 word)
{
	hash->v3 ^= word;
	siphash_round(hash);
	siphash_round(hash);
	hash->v0 ^= word;
}

/* `rest`: the up to seven bytes after the last whole word. */
static __always_inline __u64 siphash_end(struct siphash *hash, __u64 rest, __u32 length)
{
	siphash_word(hash, rest | (__u64)length << 56);
	hash->v2 ^= 0xff;
	siphash_round(hash);
	siphash_round(hash);
	siphash_round(hash);
	siphash_round(hash);
	return hash->v0 ^ hash->v1 ^ hash->v2 ^ hash->v3;
}

#endif
