/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_TRANSOM_PROCESSOR_H
#define _ASM_TRANSOM_PROCESSOR_H

#include <asm/page.h>
#include <asm/ptrace.h>

#ifndef __ASSEMBLY__

#include <linux/compiler.h>

struct task_struct;

/* A thread that does not run is its stack pointer; all else lies on its stack. */
struct thread_struct {
	unsigned long sp;
	int (*fn)(void *argument);
	void *argument;
};

#define INIT_THREAD {.sp = 0}

#define TASK_SIZE ULONG_MAX
#define TASK_UNMAPPED_BASE 0
#define STACK_TOP TASK_SIZE
#define STACK_TOP_MAX STACK_TOP

#define task_pt_regs(task) ((struct pt_regs *)(task_stack_page(task) + THREAD_SIZE) - 1)
#define KSTK_EIP(task) ((void)(task), 0UL)
#define KSTK_ESP(task) ((void)(task), 0UL)

static inline unsigned long __get_wchan(struct task_struct *task)
{
	return 0;
}

static inline void start_thread(struct pt_regs *regs, unsigned long pc, unsigned long sp)
{
}

static inline void flush_thread(void)
{
}

#define cpu_relax() barrier()

#endif

#endif
