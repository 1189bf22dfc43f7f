/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * The second tier: the functions of the first through kprobes, where the
 * kernel has no trampolines (Android on arm64). A kprobe gets numbers, so a
 * socket counts only if its address is known (addresses.h).
 */
#ifndef TRANSOM_KPROBES_H
#define TRANSOM_KPROBES_H

#include "probes.h"

/* Calls that have begun and not ended, by the stack they run on. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, __u64);
} calls SEC(".maps");

/* A call instruction of x86 pushes the return address, one of arm64 does not. */
#if defined(__TARGET_ARCH_x86)
#define RETURN_ADDRESS_BYTES 8
#else
#define RETURN_ADDRESS_BYTES 0
#endif

static __always_inline int call_begins(struct pt_regs *ctx)
{
	u64 address = PT_REGS_PARM1(ctx), stack = PT_REGS_SP(ctx) + RETURN_ADDRESS_BYTES;

	if (find_address(address) && bpf_map_update_elem(&calls, &stack, &address, BPF_ANY))
		count_loss(TX_LOSS_STORAGE);
	return 0;
}

/* The address of the socket that the call which ends now was about, or 0. */
static __always_inline u64 call_ends(struct pt_regs *ctx)
{
	u64 stack = PT_REGS_SP(ctx), *found = bpf_map_lookup_elem(&calls, &stack), address;

	if (!found)
		return 0;
	address = *found;
	bpf_map_delete_elem(&calls, &stack);
	return address;
}

SEC("tp_btf/tcp_probe")
int BPF_PROG(tp_segment_entered, struct sock *sk, struct sk_buff *skb)
{
	return segment_entered(sk, skb);
}

SEC("kprobe/tcp_rcv_established")
int kprobe_ack(struct pt_regs *ctx)
{
	return call_begins(ctx);
}

SEC("kretprobe/tcp_rcv_established")
int kretprobe_ack(struct pt_regs *ctx)
{
	u64 address = call_ends(ctx);

	return address ? segment_left(find_address(address), tcp_sock_by_number(address)) : 0;
}

static __always_inline int transmit_ends(struct pt_regs *ctx)
{
	u64 address = call_ends(ctx);
	struct by_address *entry;
	int error = PT_REGS_RC(ctx);

	if (!address || error <= 0)
		return 0;
	entry = find_address(address);
	if (entry)
		emit_state(&entry->id, tcp_sock_by_number(address), TX_LOCAL_CONGESTION,
			   TX_AT_ENTER_CWR, error, 0, 0);
	return 0;
}

SEC("kprobe/ip_queue_xmit")
int kprobe_transmit4(struct pt_regs *ctx)
{
	return call_begins(ctx);
}

SEC("kretprobe/ip_queue_xmit")
int kretprobe_transmit4(struct pt_regs *ctx)
{
	return transmit_ends(ctx);
}

SEC("kprobe/inet6_csk_xmit")
int kprobe_transmit6(struct pt_regs *ctx)
{
	return call_begins(ctx);
}

SEC("kretprobe/inet6_csk_xmit")
int kretprobe_transmit6(struct pt_regs *ctx)
{
	return transmit_ends(ctx);
}

#endif
