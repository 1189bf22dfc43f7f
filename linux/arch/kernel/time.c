// SPDX-License-Identifier: GPL-2.0
/* All time is the host's: one clock source, one timer, both in its nanoseconds. */
#include <linux/clockchips.h>
#include <linux/clocksource.h>
#include <linux/delay.h>
#include <linux/hardirq.h>
#include <linux/init.h>
#include <linux/sched/clock.h>
#include <linux/timekeeping.h>
#include <asm/irq_regs.h>
#include <library/series.h>

#include "library.h"

/*
 * The clock when the kernel's time is 0: a little before it is first read, for
 * TCP takes a time of 0 for none, and a clock may stand still over the boot.
 */
#define BEFORE_BOOT NSEC_PER_MSEC
static u64 boot_time;
static bool running;

/* When the timer fires; KTIME_MAX: never. */
static ktime_t expiry = KTIME_MAX;

u64 transom_clock(void)
{
	return host->clock(host->host) - boot_time;
}

static u64 read_clock(struct clocksource *source)
{
	u64 now = host->clock(host->host);

	if (!running) {
		running = true;
		boot_time = now - BEFORE_BOOT;
		return boot_time;
	}
	return now;
}

static struct clocksource host_clock = {
	.name = "host",
	.rating = 500,
	.read = read_clock,
	.mask = CLOCKSOURCE_MASK(64),
	/* 1 ns is 1 ns, with the finest adjustment that does not overflow in an hour. */
	.mult = 1 << 20,
	.shift = 20,
	.flags = CLOCK_SOURCE_IS_CONTINUOUS | CLOCK_SOURCE_VALID_FOR_HRES,
	.max_idle_ns = 3600 * NSEC_PER_SEC,
};

struct clocksource *__init clocksource_default_clock(void)
{
	return &host_clock;
}

/*
 * 6.1 takes jiffies for a better clock than one that is not registered, and
 * late releases of 6.12 do not know such a one's longest step: their seconds
 * would stand still.
 */
static int __init keep_host_clock(void)
{
	return __clocksource_register(&host_clock);
}
early_initcall(keep_host_clock);

unsigned long long notrace sched_clock(void)
{
	return running ? transom_clock() : 0;
}

void read_persistent_clock64(struct timespec64 *ts)
{
	*ts = ns_to_timespec64(host->wall_clock(host->host));
}

static int set_expiry(ktime_t at, struct clock_event_device *device)
{
	expiry = at;
	return 0;
}

static int no_expiry(struct clock_event_device *device)
{
	expiry = KTIME_MAX;
	return 0;
}

static struct clock_event_device host_timer = {
	.name = "host",
	.rating = 500,
	.features = CLOCK_EVT_FEAT_ONESHOT | CLOCK_EVT_FEAT_KTIME,
	.set_next_ktime = set_expiry,
	.set_state_shutdown = no_expiry,
	.set_state_oneshot = no_expiry,
	.set_state_oneshot_stopped = no_expiry,
	.irq = -1,
};

void __init time_init(void)
{
	host_timer.cpumask = cpumask_of(0);
	clockevents_config_and_register(&host_timer, NSEC_PER_SEC, 1, LONG_MAX);
}

/* In the host's time. */
u64 transom_timer_expiry(void)
{
	return expiry == KTIME_MAX ? LINUX_NEVER : (u64)expiry + boot_time;
}

/* The timer's interrupt, if it is due. */
bool transom_deliver_timer(void)
{
	static struct pt_regs nobody;
	struct pt_regs *outer;
	unsigned long flags;

	if (expiry == KTIME_MAX || transom_clock() < expiry)
		return false;
	local_irq_save(flags);
	outer = set_irq_regs(&nobody);
	irq_enter();
	expiry = KTIME_MAX;
	host_timer.event_handler(&host_timer);
	irq_exit();
	set_irq_regs(outer);
	local_irq_restore(flags);
	return true;
}

/* No device waits for us, so nothing is ever gained by spinning. */
void __delay(unsigned long loops)
{
}

void __udelay(unsigned long usecs)
{
}

void __ndelay(unsigned long nsecs)
{
}

void __const_udelay(unsigned long xloops)
{
}

void __init calibrate_delay(void)
{
	loops_per_jiffy = 1;
}
