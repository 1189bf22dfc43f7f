/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_TRANSOM_STRING_H
#define _ASM_TRANSOM_STRING_H

/*
 * The host's C library has these for its very processor. They are the only
 * functions that the library takes from outside by name.
 */
#define __HAVE_ARCH_MEMCPY
#define __HAVE_ARCH_MEMMOVE
#define __HAVE_ARCH_MEMSET
#define __HAVE_ARCH_MEMCMP

#define HOST_FUNCTION __attribute__((visibility("default")))

HOST_FUNCTION void *memcpy(void *to, const void *from, size_t size);
HOST_FUNCTION void *memmove(void *to, const void *from, size_t size);
HOST_FUNCTION void *memset(void *at, int byte, size_t size);
HOST_FUNCTION int memcmp(const void *a, const void *b, size_t size);

#undef HOST_FUNCTION

#endif
