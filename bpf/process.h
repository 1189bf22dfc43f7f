/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/* Which process a connection is of, and its name. */
#ifndef TRANSOM_PROCESS_H
#define TRANSOM_PROCESS_H

#include "compat.h"

struct process {
	u32 tgid;
	char comm[16];
};

/* As /proc/PID/comm has it: that of the process, whatever its threads call themselves. */
static __always_inline void read_process_name(char *comm, const struct task_struct *task)
{
	const struct task_struct *leader = BPF_CORE_READ(task, group_leader);

	bpf_probe_read_kernel(comm, 16, leader->comm);
}

/* The one that runs now. */
static __always_inline void read_current_process(u32 *tgid, char *comm)
{
	*tgid = bpf_get_current_pid_tgid() >> 32;
	read_process_name(comm, (const struct task_struct *)bpf_get_current_task());
}

#endif
