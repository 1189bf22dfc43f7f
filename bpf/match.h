/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/* Ports and prefixes, for the filters of those who see and the rules of those who act. */
#ifndef TRANSOM_MATCH_H
#define TRANSOM_MATCH_H

#include "kernel.h"

#define FILTER_MAX 16

struct tx_prefix {
	__u8 addr[16];
	__u16 family;
	__u16 length; /* bits */
};

static __always_inline bool has_port(const volatile __u16 *ports, u32 n, u16 port)
{
	for (u32 i = 0; i < FILTER_MAX; i++) {
		if (i >= n)
			return false;
		if (ports[i] == port)
			return true;
	}
	return false;
}

static __always_inline bool in_prefix(const volatile struct tx_prefix *prefix, const __u8 *addr,
				      u16 family)
{
	u32 bits = prefix->length;

	if (prefix->family != family)
		return false;
	for (u32 i = 0; i < 16; i++) {
		if (bits >= 8) {
			if (prefix->addr[i] != addr[i])
				return false;
			bits -= 8;
		} else {
			__u8 mask = 0xff00 >> bits;
			return !((prefix->addr[i] ^ addr[i]) & mask);
		}
	}
	return true;
}

static __always_inline bool in_prefixes(const volatile struct tx_prefix *prefixes, u32 n,
					const __u8 *addr, u16 family)
{
	for (u32 i = 0; i < FILTER_MAX; i++) {
		if (i >= n)
			return false;
		if (in_prefix(&prefixes[i], addr, family))
			return true;
	}
	return false;
}

#endif
