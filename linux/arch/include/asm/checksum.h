/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_TRANSOM_CHECKSUM_H
#define _ASM_TRANSOM_CHECKSUM_H

/* checksum.c; lib/checksum.c does the rest with it. */
#define do_csum do_csum
unsigned int do_csum(const unsigned char *at, int size);

#include <asm-generic/checksum.h>

#endif
