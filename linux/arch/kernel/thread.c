// SPDX-License-Identifier: GPL-2.0
/*
 * Kernel threads: each on a stack of its own, and one of them runs. The host's
 * thread is one too, pid 1: its stack is the host's, and while no thread of
 * the library runs, it does, in what would be user mode.
 */
#include <linux/sched.h>
#include <linux/sched/debug.h>
#include <linux/sched/task.h>
#include <linux/sched/task_stack.h>
#include <linux/ptrace.h>
#include <linux/reboot.h>
#include <linux/pm.h>
#include <asm/switch_to.h>

#include "library.h"

struct task_struct *transom_current = &init_task;

/* Who ran before the one that runs now. */
static struct task_struct *previous;

struct task_struct *__switch_to(struct task_struct *from, struct task_struct *to)
{
	previous = from;
	transom_current = to;
	transom_switch(&from->thread.sp, to->thread.sp);
	return previous;
}

static void thread_start(void)
{
	schedule_tail(previous);
	current->thread.fn(current->thread.argument);
	do_exit(0);
}

int copy_thread(struct task_struct *p, const struct kernel_clone_args *args)
{
	if (!args->fn)
		return -EINVAL;
	p->thread.fn = args->fn;
	p->thread.argument = args->fn_arg;
	p->thread.sp = transom_new_stack(task_stack_page(p) + THREAD_SIZE, thread_start);
	return 0;
}

void show_regs(struct pt_regs *regs)
{
	show_regs_print_info(KERN_DEFAULT);
}

void show_stack(struct task_struct *task, unsigned long *sp, const char *loglvl)
{
}

/* Nobody can be traced: there are no programs. */
long arch_ptrace(struct task_struct *child, long request, unsigned long at, unsigned long data)
{
	return -EIO;
}

void ptrace_disable(struct task_struct *child)
{
}

void (*pm_power_off)(void);

static void __noreturn stop(void)
{
	if (!transom_booted())
		transom_boot_failed();
	host->panic(host->host, "the kernel stopped: see its log");
	__builtin_trap();
}

void machine_restart(char *command)
{
	stop();
}

void machine_halt(void)
{
	stop();
}

void machine_power_off(void)
{
	stop();
}
