/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Every difference between the series of Linux that the library is built from,
 * each with the version that made it. The code is written for the newest one.
 */
#ifndef TRANSOM_LIBRARY_SERIES_H
#define TRANSOM_LIBRARY_SERIES_H

#include <linux/version.h>

#define SINCE(major, minor) (LINUX_VERSION_CODE >= KERNEL_VERSION(major, minor, 0))

/* Exchanges of an atomic_t are made from arch_xchg() and arch_cmpxchg() since 6.5. */
#if !SINCE(6, 5)
#define arch_atomic_xchg(v, new) arch_xchg(&(v)->counter, (new))
#define arch_atomic64_xchg(v, new) arch_xchg(&(v)->counter, (new))
#define arch_atomic_cmpxchg(v, old, new) arch_cmpxchg(&(v)->counter, (old), (new))
#define arch_atomic64_cmpxchg(v, old, new) arch_cmpxchg(&(v)->counter, (old), (new))
#endif

/* System calls are numbered by a table of each architecture since 6.11. */
#if SINCE(6, 11)
#define SERIES_UNISTD <asm/unistd_64.h>
#else
#define SERIES_UNISTD <asm-generic/unistd.h>
#define __ARCH_WANT_NEW_STAT
#define __ARCH_WANT_SYS_CLONE3
#endif

/* The linker script's tables have a macro since 6.2. (Its language is not clang-format's.) */
/* clang-format off */
#if !SINCE(6, 2)
#define BOUNDED_SECTION_BY(section, label)                                                         \
	__start##label = .;                                                                        \
	KEEP(*(section))                                                                           \
	__stop##label = .;
#endif
/* clang-format on */

/* The idle loop has no section of its own since 6.3. */
#if SINCE(6, 3)
#define CPUIDLE_TEXT
#endif

/* Memory without holes has a pfn_valid() of its own since 6.3. */
#if !SINCE(6, 3)
#define pfn_valid(pfn) ((pfn) < max_mapnr)
#endif

/* The header of loads without alignment is no architecture's since 6.12 (in quotes, for `linux` is a macro). */
#if SINCE(6, 12)
#define SERIES_UNALIGNED "linux/unaligned.h"
#else
#define SERIES_UNALIGNED "asm/unaligned.h"
#endif

/* A table of sysctls is registered with its size since 6.6; before, an empty entry ended it. */
#if SINCE(6, 6)
#define SERIES_TABLE_END
#else
/* clang-format off */
#define SERIES_TABLE_END , {}
/* clang-format on */
#define register_net_sysctl_sz(net, path, table, size) register_net_sysctl(net, path, table)
#endif

/* Pages are sent as a message since 6.5; before, by a call of their own. */
#if SINCE(6, 5)
#define send_pages(sock, msg) sock_sendmsg(sock, msg)
#else
#define send_pages(sock, msg)                                                                      \
	kernel_sendpage(sock, (msg)->msg_iter.bvec->bv_page, (msg)->msg_iter.bvec->bv_offset,      \
			(msg)->msg_iter.bvec->bv_len, (msg)->msg_flags & ~MSG_SPLICE_PAGES)
#endif

/* A program may close a file at once since 6.6; before, on its way back to user mode. */
#if SINCE(6, 6)
#define fput_soon(file) __fput_sync(file)
#else
#define fput_soon(file) fput(file)
#endif

/* Options are set and read without a descriptor since 6.7; those of MPTCP are its own. */
#if !SINCE(6, 7)
#define do_sock_setsockopt(sock, compat, level, name, value, size)                                 \
	((size) < 0 ? -EINVAL                                                                      \
	 : (level) == SOL_SOCKET && (sock)->sk->sk_protocol != IPPROTO_MPTCP                       \
		 ? sock_setsockopt(sock, level, name, value, size)                                 \
	 : (sock)->ops->setsockopt ? (sock)->ops->setsockopt(sock, level, name, value, size)       \
				   : -EOPNOTSUPP)
#define do_sock_getsockopt(sock, compat, level, name, value, size)                                 \
	((level) == SOL_SOCKET ? sock_getsockopt(sock, level, name, (value).user, (size).user)     \
	 : (sock)->ops->getsockopt                                                                 \
		 ? (sock)->ops->getsockopt(sock, level, name, (value).user, (size).user)           \
		 : -EOPNOTSUPP)
#endif

/* cong_control() gets the ACK's number and flags since 6.10. */
#if SINCE(6, 10)
#define SERIES_CONG_CONTROL struct sock *sk, u32 ack, int flag, const struct rate_sample *rs
#else
#define SERIES_CONG_CONTROL struct sock *sk, const struct rate_sample *rs
#endif

/* A reset that is sent has a reason since 6.10; 0: not reported. */
#if SINCE(6, 10)
#define SERIES_SEND_RESET                                                                          \
	const struct sock *sk, const struct sk_buff *skb, enum sk_rst_reason reason
#define SERIES_RESET_REASON reason
#else
#define SERIES_SEND_RESET const struct sock *sk, const struct sk_buff *skb
#define SERIES_RESET_REASON 0
#endif

/* A drop is reported with the socket that was to receive it since 6.11. */
#if SINCE(6, 11)
#define SERIES_DROP                                                                                \
	struct sk_buff *skb, void *location, enum skb_drop_reason reason, struct sock *receiver
#else
#define SERIES_DROP struct sk_buff *skb, void *location, enum skb_drop_reason reason
#endif

#endif
