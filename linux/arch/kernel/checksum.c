// SPDX-License-Identifier: GPL-2.0
/*
 * The Internet checksum (RFC 1071) of what no NIC sums for us: words of 32 bits
 * into 64, in four sums that do not wait for each other. Little-endian, and
 * addresses need no alignment.
 */
#include <library/series.h>
#include <net/checksum.h>
#include SERIES_UNALIGNED

unsigned int do_csum(const unsigned char *at, int size)
{
	u64 sum = 0, second = 0, third = 0, fourth = 0;

	for (; size >= 16; size -= 16, at += 16) {
		sum += get_unaligned((const u32 *)at);
		second += get_unaligned((const u32 *)(at + 4));
		third += get_unaligned((const u32 *)(at + 8));
		fourth += get_unaligned((const u32 *)(at + 12));
	}
	sum += second + third + fourth;
	for (; size >= 2; size -= 2, at += 2)
		sum += get_unaligned((const u16 *)at);
	if (size > 0)
		sum += *at;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}
