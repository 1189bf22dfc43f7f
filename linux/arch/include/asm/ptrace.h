/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_TRANSOM_PTRACE_H
#define _ASM_TRANSOM_PTRACE_H

#include <uapi/asm/ptrace.h>

#ifndef __ASSEMBLY__

struct pt_regs {
	struct user_regs_struct regs;
};

/* "Interrupts" come only where the host calls us, always from the kernel's view of itself. */
#define user_mode(regs) 0
#define instruction_pointer(regs) 0UL
#define profile_pc(regs) instruction_pointer(regs)
#define kernel_stack_pointer(regs) 0UL
#define user_stack_pointer(regs) 0UL

#endif

#endif
