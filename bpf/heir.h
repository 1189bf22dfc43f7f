/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * The owner of a connection without a probe at each system call. The probes of
 * sending and receiving (lifecycle.h) are attached only while there are
 * connections whose owner has not been seen to use them. Afterwards `send` sees
 * a new owner: a process that sends holds the socket's lock.
 * crates/monitor/src/presence.rs attaches and detaches.
 */
#ifndef TRANSOM_HEIR_H
#define TRANSOM_HEIR_H

#include "ack.h"
#include "connection.h"

/* Shared with user space, which maps it. */
struct presence {
	u64 wanted_ns; /* when a segment of a connection without a proven owner was last seen */
	u32 detached;  /* by user space: there are no probes at system calls */
	u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct presence);
} presence SEC(".maps");

#define WAKE_AGAIN_NS 1000000

static __noinline void want_owner(void)
{
	u32 zero = 0;
	struct presence *now = bpf_map_lookup_elem(&presence, &zero);
	u64 time, last;

	if (!now)
		return;
	time = bpf_ktime_get_boot_ns();
	last = now->wanted_ns;
	if (time - last < WAKE_AGAIN_NS)
		return;
	now->wanted_ns = time;
	if (now->detached)
		sink_wake();
}

/* While the probes at system calls are away: whether there is anything to learn of who sends. */
static __always_inline bool is_by_another(const struct by_address *entry)
{
	u32 zero = 0;
	struct presence *now = bpf_map_lookup_elem(&presence, &zero);

	if (!now || !now->detached)
		return false;
	return !entry->settled || entry->heir || entry->id.tgid != bpf_get_current_pid_tgid() >> 32;
}

/*
 * A process holds the lock while it calls the kernel, but also while it lets in
 * what has waited for the lock (the backlog), and one that only looks (an
 * iterator) may do so. So a new owner is one that sends twice in a row, unless
 * none was seen before.
 */
static __noinline void sent_by_process(struct by_address *entry, struct tcp_sock *tp, u32 flags)
{
	struct task_struct *task;
	u32 tgid, old;

	if (!entry || !tp)
		return;
	tgid = bpf_get_current_pid_tgid() >> 32;
	old = entry->id.tgid;
	if (tgid == old) {
		entry->heir = 0;
		entry->settled = true;
		return;
	}
	/* Who closes last need not have used it. */
	if (flags & (TH_FIN | TH_RST) || tp->inet_conn.icsk_inet.sk.sk_backlog.len)
		return;
	task = (struct task_struct *)bpf_get_current_task();
	if (BPF_CORE_READ(task, flags) & PF_KTHREAD)
		return;
	if (entry->settled && entry->heir != tgid) {
		entry->heir = tgid;
		return;
	}
	entry->heir = 0;
	entry->id.tgid = tgid;
	read_process_name(entry->id.comm, task);
	entry->settled = true;
	emit_identity(&entry->id, tp, TX_OWNER, TX_AT_DEV_QUEUE, old);
}

#endif
