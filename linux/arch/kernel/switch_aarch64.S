/* SPDX-License-Identifier: GPL-2.0 */
/*
 * AAPCS64 keeps x19 to x29 and the stack pointer over a call, and d8 to d15,
 * which the library never touches: it is built with general registers only.
 */
#include <linux/linkage.h>

/* void transom_switch(unsigned long *from, unsigned long to) */
SYM_FUNC_START(transom_switch)
	sub	sp, sp, #96
	stp	x19, x20, [sp]
	stp	x21, x22, [sp, #16]
	stp	x23, x24, [sp, #32]
	stp	x25, x26, [sp, #48]
	stp	x27, x28, [sp, #64]
	stp	x29, x30, [sp, #80]
	mov	x2, sp
	str	x2, [x0]
	mov	sp, x1
	ldp	x19, x20, [sp]
	ldp	x21, x22, [sp, #16]
	ldp	x23, x24, [sp, #32]
	ldp	x25, x26, [sp, #48]
	ldp	x27, x28, [sp, #64]
	ldp	x29, x30, [sp, #80]
	add	sp, sp, #96
	ret
SYM_FUNC_END(transom_switch)

/* unsigned long transom_new_stack(void *top, void (*entry)(void)) */
SYM_FUNC_START(transom_new_stack)
	and	x0, x0, #-16
	sub	x0, x0, #96
	stp	xzr, xzr, [x0]
	stp	xzr, xzr, [x0, #16]
	stp	xzr, xzr, [x0, #32]
	stp	xzr, xzr, [x0, #48]
	stp	xzr, xzr, [x0, #64]
	stp	xzr, x1, [x0, #80]
	ret
SYM_FUNC_END(transom_new_stack)

	.section .note.GNU-stack, "", %progbits
