/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_TRANSOM_SYSCALL_H
#define _ASM_TRANSOM_SYSCALL_H

#include <uapi/linux/audit.h>

struct task_struct;
struct pt_regs;

static inline long syscall_get_nr(struct task_struct *task, struct pt_regs *regs)
{
	return -1;
}

static inline int syscall_get_arch(struct task_struct *task)
{
	return 0;
}

#endif
