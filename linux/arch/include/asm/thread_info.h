/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_TRANSOM_THREAD_INFO_H
#define _ASM_TRANSOM_THREAD_INFO_H

#include <linux/const.h>

/* Host functions run on these stacks too, and so may the host's signal handlers. */
#define THREAD_SIZE_ORDER 4
#define THREAD_SIZE (_AC(4096, UL) << THREAD_SIZE_ORDER)

#ifndef __ASSEMBLY__

struct thread_info {
	unsigned long flags;
	int preempt_count;
	u32 cpu;
};

#define INIT_THREAD_INFO(task)                                                                     \
	{                                                                                          \
		.flags = 0,                                                                        \
		.preempt_count = INIT_PREEMPT_COUNT,                                               \
	}

#endif

#define TIF_NOTIFY_RESUME 0
#define TIF_SIGPENDING 1
#define TIF_NOTIFY_SIGNAL 2
#define TIF_NEED_RESCHED 3
#define TIF_MEMDIE 4
#define TIF_RESTORE_SIGMASK 5
#define TIF_POLLING_NRFLAG 6
#define TIF_SYSCALL_TRACE 7
#define TIF_SYSCALL_AUDIT 8
#define TIF_SECCOMP 9

#define _TIF_NOTIFY_RESUME (1 << TIF_NOTIFY_RESUME)
#define _TIF_SIGPENDING (1 << TIF_SIGPENDING)
#define _TIF_NOTIFY_SIGNAL (1 << TIF_NOTIFY_SIGNAL)
#define _TIF_NEED_RESCHED (1 << TIF_NEED_RESCHED)
#define _TIF_POLLING_NRFLAG (1 << TIF_POLLING_NRFLAG)
#define _TIF_SYSCALL_TRACE (1 << TIF_SYSCALL_TRACE)
#define _TIF_SYSCALL_AUDIT (1 << TIF_SYSCALL_AUDIT)
#define _TIF_SECCOMP (1 << TIF_SECCOMP)

#endif
