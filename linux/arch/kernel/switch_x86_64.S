/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The System V ABI keeps rbx, rbp, r12 to r15 and the stack pointer over a
 * call; the control words of x87 and SSE are never changed here.
 */
#include <linux/linkage.h>

/* void transom_switch(unsigned long *from, unsigned long to) */
SYM_FUNC_START(transom_switch)
	pushq	%rbp
	pushq	%rbx
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	movq	%rsp, (%rdi)
	movq	%rsi, %rsp
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbx
	popq	%rbp
	ret
SYM_FUNC_END(transom_switch)

/* unsigned long transom_new_stack(void *top, void (*entry)(void)) */
SYM_FUNC_START(transom_new_stack)
	andq	$-16, %rdi
	leaq	-64(%rdi), %rax
	movq	$0, (%rax)
	movq	$0, 8(%rax)
	movq	$0, 16(%rax)
	movq	$0, 24(%rax)
	movq	$0, 32(%rax)
	movq	$0, 40(%rax)
	movq	%rsi, 48(%rax)
	movq	$0, 56(%rax)	/* where entry would return to: nowhere */
	ret
SYM_FUNC_END(transom_new_stack)

	.section .note.GNU-stack, "", %progbits
