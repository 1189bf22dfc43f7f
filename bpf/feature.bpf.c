/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/* Does this kernel let us attach to functions at all? Loaded, attached, and gone. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

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
