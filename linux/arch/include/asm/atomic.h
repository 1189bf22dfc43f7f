/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_TRANSOM_ATOMIC_H
#define _ASM_TRANSOM_ATOMIC_H

#include <linux/types.h>
#include <asm/barrier.h>
#include <asm/cmpxchg.h>
#include <library/series.h>

/* One thread and no interrupts: plain arithmetic is atomic. */
#define TRANSOM_ATOMIC(prefix, type, counter_t, name, op)                                          \
	static __always_inline void prefix##_##name(counter_t i, type *v)                          \
	{                                                                                          \
		v->counter = v->counter op i;                                                      \
	}                                                                                          \
	static __always_inline counter_t prefix##_##name##_return(counter_t i, type *v)            \
	{                                                                                          \
		return v->counter = v->counter op i;                                               \
	}                                                                                          \
	static __always_inline counter_t prefix##_fetch_##name(counter_t i, type *v)               \
	{                                                                                          \
		counter_t was = v->counter;                                                        \
                                                                                                   \
		v->counter = was op i;                                                             \
		return was;                                                                        \
	}

#define TRANSOM_ATOMICS(prefix, type, counter_t)                                                   \
	TRANSOM_ATOMIC(prefix, type, counter_t, add, +)                                            \
	TRANSOM_ATOMIC(prefix, type, counter_t, sub, -)                                            \
	TRANSOM_ATOMIC(prefix, type, counter_t, and, &)                                            \
	TRANSOM_ATOMIC(prefix, type, counter_t, or, |)                                             \
	TRANSOM_ATOMIC(prefix, type, counter_t, xor, ^)

#define arch_atomic_read(v) READ_ONCE((v)->counter)
#define arch_atomic_set(v, i) WRITE_ONCE(((v)->counter), (i))
#define ATOMIC64_INIT(i) {(i)}

#define arch_atomic64_read(v) READ_ONCE((v)->counter)
#define arch_atomic64_set(v, i) WRITE_ONCE(((v)->counter), (i))

TRANSOM_ATOMICS(arch_atomic, atomic_t, int)
TRANSOM_ATOMICS(arch_atomic64, atomic64_t, s64)

#undef TRANSOM_ATOMIC
#undef TRANSOM_ATOMICS

#define arch_atomic_add_return arch_atomic_add_return
#define arch_atomic_sub_return arch_atomic_sub_return
#define arch_atomic_fetch_add arch_atomic_fetch_add
#define arch_atomic_fetch_sub arch_atomic_fetch_sub
#define arch_atomic_fetch_and arch_atomic_fetch_and
#define arch_atomic_fetch_or arch_atomic_fetch_or
#define arch_atomic_fetch_xor arch_atomic_fetch_xor
#define arch_atomic64_add_return arch_atomic64_add_return
#define arch_atomic64_sub_return arch_atomic64_sub_return
#define arch_atomic64_fetch_add arch_atomic64_fetch_add
#define arch_atomic64_fetch_sub arch_atomic64_fetch_sub
#define arch_atomic64_fetch_and arch_atomic64_fetch_and
#define arch_atomic64_fetch_or arch_atomic64_fetch_or
#define arch_atomic64_fetch_xor arch_atomic64_fetch_xor

#endif
