/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * The connections that another program has chosen to be recorded, in the socket's own storage:
 * the agent (agent_choice.h) chooses, the probes (connection.h) record with `settings.by_choice`.
 * Both objects share this one map.
 */
#ifndef TRANSOM_CHOSEN_H
#define TRANSOM_CHOSEN_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>

enum tx_chosen_over { TX_CHOSEN_HOLDS, TX_CHOSEN_OVER, TX_CHOSEN_LEFT };

struct tx_chosen {
	__u32 why;  /* tx_choice */
	__u32 tgid; /* who has it, as the one knows who chose */
	char comm[16];
	__u8 origin; /* tx_origin, where it is chosen as it opens; 0 = it was open before */
	__u8 over;   /* tx_chosen_over: set by who chose, then by the probes once they left it */
	__u16 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct tx_chosen);
} transom_chosen SEC(".maps");

#endif
