/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_TRANSOM_IRQFLAGS_H
#define _ASM_TRANSOM_IRQFLAGS_H

#ifndef __ASSEMBLY__

/*
 * Nothing ever interrupts us: interrupts are delivered where linux_run() and
 * the idle loop look for them. The flag only tells the kernel what it said.
 */
extern unsigned long transom_interrupts_enabled;

#define ARCH_IRQ_DISABLED 0
#define ARCH_IRQ_ENABLED 1

static __always_inline unsigned long arch_local_save_flags(void)
{
	return transom_interrupts_enabled;
}
#define arch_local_save_flags arch_local_save_flags

static __always_inline void arch_local_irq_restore(unsigned long flags)
{
	transom_interrupts_enabled = flags;
}
#define arch_local_irq_restore arch_local_irq_restore

#include <asm-generic/irqflags.h>

#endif

#endif
