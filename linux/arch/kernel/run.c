// SPDX-License-Identifier: GPL-2.0
/*
 * The host's thread and the others.
 *
 * The host owns the loop. Its thread is pid 1 and "in user mode" between two
 * calls; a call runs in its context, on its stack. Other threads and timers
 * run when it asks for that (linux_run) or sleeps amid a call.
 */
#include <linux/cpu.h>
#include <linux/interrupt.h>
#include <linux/pid_namespace.h>
#include <linux/resume_user_mode.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/stat.h>
#include <linux/task_work.h>
#include <linux/tick.h>

#include "library.h"

unsigned long transom_interrupts_enabled;

/* Nothing is due and the tick is stopped, as in the idle loop. */
static bool idle;

/* It is never stopped: for a host that simulates, and calls all the time. */
static bool keep_tick;

/* The host's thread sleeps until all others do. */
static bool until_idle;

void transom_enter(void)
{
	if (!idle)
		return;
	idle = false;
	tick_nohz_idle_exit();
}

/* What would be done on the way back to user mode. */
long transom_leave(long result)
{
	if (unlikely(test_thread_flag(TIF_NOTIFY_RESUME))) {
		clear_thread_flag(TIF_NOTIFY_RESUME);
		task_work_run();
	}
	if (unlikely(test_thread_flag(TIF_SIGPENDING)))
		clear_thread_flag(TIF_SIGPENDING);
	switch (result) {
	case -ERESTARTSYS:
	case -ERESTARTNOINTR:
	case -ERESTARTNOHAND:
	case -ERESTART_RESTARTBLOCK:
	case -EINTR:
		return -EAGAIN;
	}
	return result;
}

static bool run_others(void)
{
	if (!need_resched() && single_task_running())
		return false;
	until_idle = true;
	set_current_state(TASK_UNINTERRUPTIBLE);
	schedule();
	return true;
}

static bool run_softirqs(void)
{
	if (!local_softirq_pending())
		return false;
	do_softirq();
	return true;
}

u64 linux_run(void)
{
	bool busy;

	transom_enter();
	do {
		busy = transom_deliver_timer();
		busy |= run_softirqs();
		busy |= run_others();
	} while (busy);
	if (keep_tick)
		return transom_timer_expiry();

	tick_nohz_idle_enter();
	local_irq_disable();
	tick_nohz_idle_stop_tick();
	local_irq_enable();
	idle = true;
	return transom_timer_expiry();
}

void linux_keep_tick(int on)
{
	transom_enter();
	keep_tick = on;
}

/*
 * The host's thread sleeps amid a call. If it may be interrupted, it is, and
 * the call returns -EAGAIN; else something else must happen first.
 */
static void wait_amid_call(void)
{
	struct task_struct *task = &init_task;

	if (transom_booted()) {
		task = init_pid_ns.child_reaper;
		if (READ_ONCE(task->__state) & TASK_INTERRUPTIBLE) {
			set_tsk_thread_flag(task, TIF_SIGPENDING);
			wake_up_process(task);
			return;
		}
	}
	if (transom_timer_expiry() == LINUX_NEVER)
		panic("the host's thread sleeps, and nothing will wake it");
	host->wait(host->host, transom_timer_expiry());
}

/* Interrupts are disabled, and must be when it returns. */
void arch_cpu_idle(void)
{
	if (until_idle) {
		until_idle = false;
		wake_up_process(init_pid_ns.child_reaper);
	} else if (!transom_deliver_timer()) {
		wait_amid_call();
	}
}
