/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_TRANSOM_CMPXCHG_H
#define _ASM_TRANSOM_CMPXCHG_H

#include <linux/types.h>

/* One thread and no interrupts: nothing comes between a load and its store. */
#define arch_xchg(ptr, new)                                                                        \
	({                                                                                         \
		__auto_type __xchg_at = (ptr);                                                     \
		__typeof__(*(ptr)) __xchg_was = *__xchg_at;                                        \
                                                                                                   \
		*__xchg_at = (new);                                                                \
		__xchg_was;                                                                        \
	})

#define arch_cmpxchg(ptr, old, new)                                                                \
	({                                                                                         \
		__auto_type __cmpxchg_at = (ptr);                                                  \
		__typeof__(*(ptr)) __cmpxchg_was = *__cmpxchg_at;                                  \
                                                                                                   \
		if (__cmpxchg_was == (old))                                                        \
			*__cmpxchg_at = (new);                                                     \
		__cmpxchg_was;                                                                     \
	})

#define arch_cmpxchg_local arch_cmpxchg
#define arch_cmpxchg64 arch_cmpxchg
#define arch_cmpxchg64_local arch_cmpxchg

#endif
