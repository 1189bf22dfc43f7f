/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
#ifndef _UAPI_ASM_TRANSOM_PTRACE_H
#define _UAPI_ASM_TRANSOM_PTRACE_H

/* There is no user mode, so nobody's registers are ever shown. */
struct user_regs_struct {
	unsigned long none[1];
};

#endif
