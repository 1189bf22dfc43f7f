/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/* What can be found out about a kernel only by trying: loaded, attached, and gone. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Does this kernel let us attach to functions at all? */
SEC("fentry/tcp_enter_loss")
int BPF_PROG(try_fentry, struct sock *sk)
{
	return 0;
}

SEC("kprobe/tcp_enter_loss")
int try_kprobe(void *ctx)
{
	return 0;
}

/* Every connection is known by its cookie, which tracing programs get since 5.12 (c5dbb89fc2ac). */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(try_cookie, struct sock *sk)
{
	return bpf_get_socket_cookie(sk) == 0;
}

/* Switches to process 1, and away from it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
} process_1_switches SEC(".maps");

static __always_inline void count_switch(u32 away)
{
	u64 *count = bpf_map_lookup_elem(&process_1_switches, &away);

	if (count)
		__sync_fetch_and_add(count, 1);
}

/*
 * Does this kernel run programs while process 1 is current? What is switched
 * away from is still current here, what is switched to is not yet.
 */
SEC("tp_btf/sched_switch")
int BPF_PROG(try_process_1, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	if (next->tgid == 1)
		count_switch(0);
	if (prev->tgid == 1)
		count_switch(1);
	return 0;
}
