/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * What Transom changed on a connection, in the socket's own storage: the
 * parameters of `steady`, what was there before, and the last action. The
 * programs that act (policy.bpf.c), the algorithm (steady.bpf.c) and those that
 * record (connection.h) share this one map; user space finds it among the
 * kernel's by its name. crates/control/src/contract.rs has the layout in Rust.
 */
#ifndef TRANSOM_TUNED_H
#define TRANSOM_TUNED_H

#include "steady.h"

/* Why an action was taken; crates/event/src/names.rs has the words. */
enum tx_reason {
	TX_BY_HAND = 1,	    /* transom tune set */
	TX_NEW_CONNECTION,  /* a rule matched when the connection was established */
	TX_RULE_MATCHED,    /* a rule matched a running connection */
	TX_RULE_OVER,	    /* the rule's conditions hold no longer */
	TX_UNSTABLE,	    /* a rule for unstable connections matched */
	TX_GUARD_LOSS,	    /* the guard: too much was retransmitted */
	TX_GUARD_INFLATION, /* the guard: the round trip grew too long */
	TX_GUARD_RETRY,	    /* the guard's time is over */
	TX_CLEARED,	    /* transom tune clear, or the end of tune apply */
	TX_PEERS,	    /* the terminals of the access point agreed */
	TX_GUARD_SHARE,	    /* the guard: others compete for the path */
	TX_REASONS,
};

/* Algorithms that an action event can name. */
enum tx_algorithm {
	TX_ALGORITHM_KEPT = 0,
	TX_ALGORITHM_STEADY,
	TX_ALGORITHM_RENO,
	TX_ALGORITHM_CUBIC,
	TX_ALGORITHM_BBR,
	TX_ALGORITHM_DCTCP,
	TX_ALGORITHM_OTHER = 255,
};

/* `steady` is only a bridge to another algorithm: what it is to write on the way. */
enum tx_passing { TX_NOT_PASSING, TX_PASSING_THRESHOLD = 1, TX_PASSING_PACING = 2 };

/* What is to be done with a connection. */
struct tx_wish {
	char algorithm[16];		 /* "" = the one it had before us */
	struct steady_parameters steady; /* cap holds for every algorithm */
	__u32 initial_window;		 /* segments; 0 = not said; new connections only */
	__u8 rule;			 /* from 1; 0 = none */
	__u8 reason;			 /* tx_reason */
	__u8 named;			 /* tx_algorithm */
	__u8 restore;			 /* take back all that we did */
};

struct tx_tuned {
	struct tx_wish wish; /* in force */
	char algorithm[16];  /* before us; "" = not touched */
	__u32 clamp;	     /* before us */
	__u32 ssthresh;	     /* to be given back, see steady.bpf.c */
	__u32 action;	     /* the machine's count when we last acted on it */
	__u32 clamped;	     /* we set the clamp */
	__u32 passing;	     /* tx_passing */
	__u32 refused;	     /* the kernel did not take the algorithm of the wish */
	__u32 pacing_status; /* before us */
	__u32 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct tx_tuned);
} transom_tuned SEC(".maps");

/* How many actions there were on this machine: one look tells that there is nothing new. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} transom_actions SEC(".maps");

/*
 * The action on this connection that the caller has not seen: one look at a counter unless Transom
 * did something somewhere. `all` and `last` are what the caller saw, of the machine and of it.
 */
static __always_inline struct tx_tuned *new_action(struct sock *sk, u32 *all, u32 *last)
{
	u32 zero = 0, *actions = bpf_map_lookup_elem(&transom_actions, &zero);
	struct tx_tuned *tuned;

	if (!actions || *actions == *all)
		return NULL;
	*all = *actions;
	tuned = bpf_sk_storage_get(&transom_tuned, sk, NULL, 0);
	if (!tuned || tuned->action == *last)
		return NULL;
	*last = tuned->action;
	return tuned;
}

#endif
