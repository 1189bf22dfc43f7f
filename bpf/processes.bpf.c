/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * The kernel's own number of each process that a PID namespace shows. Filters and
 * events have that one; in a container a process is known by another.
 */
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define DEEPEST 32 /* MAX_PID_NS_LEVEL */

struct processes_settings {
	u32 pid_namespace; /* inode number */
};

const volatile struct processes_settings settings SEC(".rodata.settings") = {};

struct process_numbers {
	u32 here;
	u32 kernel;
};

SEC("iter/task")
int process_numbers(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct process_numbers found;
	struct upid at, *numbers;
	struct pid *pid;
	u32 level;

	if (!task || task->pid != task->tgid)
		return 0;
	pid = task->thread_pid;
	if (!pid)
		return 0;
	/* Only the place of the first is relocated. */
	numbers = __builtin_preserve_access_index(&pid->numbers[0]);
	for (level = 0; level < DEEPEST; level++) {
		if (level > pid->level)
			break;
		bpf_probe_read_kernel(&at, sizeof(at), numbers + level);
		if (BPF_CORE_READ(at.ns, ns.inum) != settings.pid_namespace)
			continue;
		found.here = at.nr;
		found.kernel = task->tgid;
		bpf_seq_write(ctx->meta->seq, &found, sizeof(found));
		break;
	}
	return 0;
}
