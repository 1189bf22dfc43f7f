/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * Which process the subflows of Multipath TCP are of: none holds one. The kernel itself connects
 * all but the first of a connection, from a worker thread.
 */
#ifndef TRANSOM_SUBFLOW_H
#define TRANSOM_SUBFLOW_H

#include "process.h"

/* By mptcp_key(). */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct process);
} mptcp_processes SEC(".maps");

/* That of the connection or listener that this is a subflow of; false if it is not known. */
static __always_inline bool read_process_of_subflow(u32 *tgid, char *comm, struct tcp_sock *tp)
{
	u64 key = mptcp_key(tp);
	struct process *known = key ? bpf_map_lookup_elem(&mptcp_processes, &key) : NULL;

	if (!known)
		return false;
	*tgid = known->tgid;
	__builtin_memcpy(comm, known->comm, 16);
	return true;
}

/* In connect(), which runs in the process whose socket it is; further subflows are of the same one. */
static __always_inline void read_connecting_process(u32 *tgid, char *comm, struct tcp_sock *tp)
{
	u64 key = mptcp_key(tp);
	struct process fresh = {};

	if (key && (read_process_of_subflow(tgid, comm, tp) || !is_first_subflow(tp)))
		return;
	read_current_process(tgid, comm);
	if (!key)
		return;
	fresh.tgid = *tgid;
	__builtin_memcpy(fresh.comm, comm, 16);
	bpf_map_update_elem(&mptcp_processes, &key, &fresh, BPF_ANY);
}

/* In a walk over open files, which comes before one over subflows. */
static __always_inline void found_mptcp_holder(struct sock *sk, struct task_struct *task)
{
	struct process holder = {.tgid = task->tgid};
	u64 key = mptcp_key_of_holder(sk);

	if (!key)
		return;
	read_process_name(holder.comm, task);
	bpf_map_update_elem(&mptcp_processes, &key, &holder, BPF_NOEXIST);
}

#endif
