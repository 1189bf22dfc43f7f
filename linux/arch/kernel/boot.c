// SPDX-License-Identifier: GPL-2.0
/* From the host's call to pid 1, which from then on is the host's thread. */
#include <linux/cpu.h>
#include <linux/init.h>
#include <linux/interrupt.h>
#include <linux/memblock.h>
#include <linux/mm.h>
#include <linux/oom.h>
#include <linux/random.h>
#include <linux/sched/task_stack.h>
#include <linux/seq_file.h>
#include <linux/start_kernel.h>
#include <linux/string.h>
#include <asm/sections.h>
#include <asm/setup.h>

#include "library.h"

/* Below this the hash tables and per-CPU lists alone do not fit. */
#define LEAST_MEMORY (16UL << 20)

/* What a second boot must not find as the first left it; see vmlinux.lds.S. */
#define KEPT __section(".bss..kept")

const struct linux_host_ops *host;

unsigned long transom_memory;
unsigned long transom_memory_size;
void *empty_zero_page;

extern char transom_data_copy[];
static bool data_copied KEPT;
static bool running KEPT;

static const char *given_command_line;
static unsigned long host_stack, boot_stack;
static enum { BOOTING, BOOTED, FAILED } progress;

bool transom_booted(void)
{
	return progress == BOOTED;
}

/* The kernel counts on its data being as compiled: the next boot gets them anew. */
static void renew_data(void)
{
	size_t size = _edata - _sdata;

	if (data_copied) {
		memcpy(_sdata, transom_data_copy, size);
		memset(__bss_start, 0, __bss_stop - __bss_start);
	} else {
		memcpy(transom_data_copy, _sdata, size);
		data_copied = true;
	}
}

static void boot_thread(void)
{
	start_kernel();
}

void transom_boot_failed(void)
{
	progress = FAILED;
	transom_switch(&boot_stack, host_stack);
	__builtin_unreachable();
}

/* Once all is initialized, pid 1 would load a program. The program is the host. */
static int __init become_host(void)
{
	system_state = SYSTEM_RUNNING;
	/* There is nobody to kill: what asks for memory that there is not is told so. */
	oom_killer_disable(0);
	progress = BOOTED;
	transom_switch(&boot_stack, host_stack);
	return 0;
}
/* After the last of the kernel's own levels. */
__define_initcall(become_host, 7t);

int linux_boot(const struct linux_host_ops *ops, const char *command_line)
{
	if (running)
		return -EBUSY;
	if (ops->memory_size < LEAST_MEMORY)
		return -ENOMEM;
	if (!PAGE_ALIGNED(ops->memory) || strlen(command_line) >= COMMAND_LINE_SIZE)
		return -EINVAL;
	renew_data();
	running = true;
	host = ops;
	given_command_line = command_line;
	transom_memory = (unsigned long)ops->memory;
	transom_memory_size = ops->memory_size & PAGE_MASK;
	transom_switch(&host_stack,
		       transom_new_stack(init_stack + THREAD_SIZE / sizeof(init_stack[0]),
					 boot_thread));
	if (progress != BOOTED) {
		running = false;
		return -EIO;
	}
	given_command_line = NULL;
	linux_run();
	return 0;
}

void linux_halt(void)
{
	running = false;
}

void __init setup_arch(char **command_line)
{
	unsigned long zones[MAX_NR_ZONES] = {};

	memblock_add(0, transom_memory_size);
	/* Address 0 means "none" to memblock. */
	memblock_reserve(0, PAGE_SIZE);
	min_low_pfn = 0;
	max_low_pfn = max_pfn = transom_memory_size >> PAGE_SHIFT;
	high_memory = __va(transom_memory_size);
	zones[ZONE_NORMAL] = max_pfn;
	free_area_init(zones);
	empty_zero_page = memblock_alloc(PAGE_SIZE, PAGE_SIZE);
	if (!empty_zero_page)
		panic("no memory");

	strscpy(boot_command_line, given_command_line, COMMAND_LINE_SIZE);
	*command_line = boot_command_line;

	add_bootloader_randomness(host->seed, sizeof(host->seed));
}

void __init mem_init(void)
{
	memblock_free_all();
}

/* The next boot needs it. */
void free_initmem(void)
{
}

void __init init_IRQ(void)
{
}

static void *one_cpu(struct seq_file *m, loff_t *at)
{
	return *at ? NULL : host->memory;
}

static void *no_more_cpus(struct seq_file *m, void *cpu, loff_t *at)
{
	++*at;
	return NULL;
}

static void end_of_cpus(struct seq_file *m, void *cpu)
{
}

static int show_cpu(struct seq_file *m, void *cpu)
{
	seq_puts(m, "processor\t: 0\nmodel name\t: a thread of the host\n");
	return 0;
}

const struct seq_operations cpuinfo_op = {
	.start = one_cpu,
	.next = no_more_cpus,
	.stop = end_of_cpus,
	.show = show_cpu,
};
