/* SPDX-License-Identifier: GPL-2.0 */
/* What the parts of the library know of one another. */
#ifndef TRANSOM_KERNEL_LIBRARY_H
#define TRANSOM_KERNEL_LIBRARY_H

#include <library/linux.h>

struct task_struct;

extern const struct linux_host_ops *host;

/* switch_*.S: saves the callee-saved registers and the stack, goes on where `to` was saved. */
void transom_switch(unsigned long *from, unsigned long to);
unsigned long transom_new_stack(void *top, void (*entry)(void));

/* time.c */
u64 transom_clock(void);
u64 transom_timer_expiry(void);
bool transom_deliver_timer(void);

/* run.c: every call of the host goes through these. */
void transom_enter(void);
long transom_leave(long result);

/* boot.c */
void transom_boot_failed(void) __noreturn;
bool transom_booted(void);

#endif
