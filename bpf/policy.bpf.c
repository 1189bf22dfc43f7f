/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * Who gets which window and which algorithm. New connections get theirs when
 * the handshake ends, here in the kernel; running ones when user space, which
 * decides by what it measured, has an iterator walk over them. Whatever is
 * changed, what was there before is remembered on the socket.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "holder.h"
#include "policy.h"
#include "state.h"
#include "subflow.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define SOL_TCP 6
#define TCP_CONGESTION 13
#define TCP_BPF_IW 1001
#define TCP_BPF_SNDCWND_CLAMP 1002
#define MOST_CLAMP 0x7fffffff
#define INFINITE_SSTHRESH 0x7fffffff

enum { ACTIVE_ESTABLISHED_CB = 4, PASSIVE_ESTABLISHED_CB = 5 };

struct bpf_sock;

/* As the kernel shows it to sock_ops programs (include/uapi/linux/bpf.h); no relocation. */
struct bpf_sock_ops {
	__u32 op;
	__u32 other[41];
	__u64 bytes[2];
	struct bpf_sock *sk;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TX_RULES);
	__type(key, __u32);
	__type(value, struct tx_rule);
} rules SEC(".maps");

/*
 * With a stack of its own: before 6.17 the verifier forgets the value of a number
 * whose address a helper was given, and a loop that counts with it never ends.
 */
static __noinline struct tx_rule *rule_at(u32 number)
{
	return bpf_map_lookup_elem(&rules, &number);
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tx_orders);
} orders SEC(".maps");

/* By socket cookie: what `walk` is to do when it acts. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct tx_wish);
} wishes SEC(".maps");

/* The program that connected or listens; children of a listener inherit it. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct process);
} owners SEC(".maps");

static __always_inline bool same_name(const char *a, const char *b)
{
	for (int i = 0; i < 16; i++) {
		if (a[i] != b[i])
			return false;
		if (!a[i])
			return true;
	}
	return true;
}

static __always_inline void copy_name(char *to, const char *from)
{
	__builtin_memcpy(to, from, 16);
}

/* Global functions are verified once, whoever calls them. */
__noinline bool program_matches(const struct tx_rule *rule, const struct tx_open *who)
{
	if (!rule || !who)
		return false;
	if (!rule->programs)
		return true;
	for (u32 i = 0; i < TX_PROGRAMS; i++) {
		if (i < rule->programs && same_name(rule->program[i], who->comm))
			return true;
	}
	return false;
}

__noinline bool ends_match(const struct tx_rule *rule, const struct tx_open *who)
{
	if (!rule || !who)
		return false;
	if (rule->netns && rule->netns != who->netns)
		return false;
	if (rule->ifindex && rule->ifindex != who->ifindex)
		return false;
	if (rule->ports && !has_port(rule->port, rule->ports, who->local_port) &&
	    !has_port(rule->port, rule->ports, who->remote_port))
		return false;
	if (rule->prefixes &&
	    !in_prefixes(rule->prefix, rule->prefixes, who->remote_addr, who->family))
		return false;
	return true;
}

/* All that does not change while a connection lives. */
static __always_inline bool rule_matches(const struct tx_rule *rule, const struct tx_open *who,
					 u64 cgrp)
{
	if (!rule->used || !ends_match(rule, who) || !program_matches(rule, who))
		return false;
	return !rule->cgroup || in_cgroup(cgrp, rule->cgroup);
}

/* What may change, as far as the kernel knows it when a connection is new. */
static __always_inline bool holds_now(const struct tx_rule *rule, u32 rtt_us, u32 terminals)
{
	if (rule->stability == TX_UNSTABLE_ONLY)
		return false;
	if (rule->terminals_least &&
	    (terminals < rule->terminals_least || terminals > rule->terminals_most))
		return false;
	if (!rule->rtt_least_us && rule->rtt_most_us == ~0U)
		return true;
	return rtt_us && rtt_us >= rule->rtt_least_us && rtt_us <= rule->rtt_most_us;
}

static __always_inline u32 rtt_of(struct tcp_sock *tp)
{
	u32 least = tp->rtt_min.s[0].v;

	return least == ~0U ? tp->srtt_us >> 3 : least;
}

static __always_inline void read_who(struct tx_open *to, struct tcp_sock *tp,
				     const struct process *owner)
{
	u32 tgid;

	read_open(to, (struct sock *)tp, tp);
	__builtin_memset(to->comm, 0, 16);
	if (owner && owner->comm[0])
		copy_name(to->comm, owner->comm);
	else
		read_process_of_subflow(&tgid, to->comm, tp);
}

static __always_inline void count_action(struct tx_tuned *tuned, const struct tx_wish *wish)
{
	u32 zero = 0, *actions = bpf_map_lookup_elem(&transom_actions, &zero);

	tuned->wish = *wish;
	if (actions)
		tuned->action = __sync_fetch_and_add(actions, 1) + 1;
}

/* Gives a connection this algorithm, over `steady` where something is to be written on the way. */
static __always_inline int change_algorithm(void *where, struct tx_tuned *tuned, char *algorithm,
					    u32 passing)
{
	char bridge[16] = "steady";

	if (passing) {
		tuned->passing = passing;
		bpf_setsockopt(where, SOL_TCP, TCP_CONGESTION, bridge, sizeof(bridge));
	}
	tuned->passing = TX_NOT_PASSING;
	return bpf_setsockopt(where, SOL_TCP, TCP_CONGESTION, algorithm, 16);
}

/* Whether the connection is paced, and was not before us; a limit of the program's own needs pacing. */
static __always_inline u32 leftover_pacing(struct tcp_sock *tp, const struct tx_tuned *tuned)
{
	struct sock *sk = (struct sock *)tp;

	return tuned->pacing_status == SK_PACING_NONE && sk->sk_pacing_status != SK_PACING_NONE &&
			       sk->sk_max_pacing_rate == ~0UL
		       ? TX_PASSING_PACING
		       : 0;
}

/* The threshold that is the connection's own: not our clamp, nor bbr, which takes it away. */
static __always_inline void note_threshold(struct tcp_sock *tp, struct tx_tuned *tuned)
{
	u32 ssthresh = tp->snd_ssthresh;

	if (tuned->ssthresh && ssthresh >= INFINITE_SSTHRESH)
		return;
	if (!tuned->clamped || ssthresh != tp->snd_cwnd_clamp)
		tuned->ssthresh = ssthresh;
}

/* Takes the clamp back; with the threshold of MOST_CLAMP, slow start would have no end. */
static __always_inline void unclamp(void *where, struct tcp_sock *tp, struct tx_tuned *tuned,
				    char *algorithm)
{
	int clamp = tuned->clamp > MOST_CLAMP ? MOST_CLAMP : tuned->clamp;

	if (!tuned->clamped)
		return;
	note_threshold(tp, tuned);
	tuned->clamped = 0;
	bpf_setsockopt(where, SOL_TCP, TCP_BPF_SNDCWND_CLAMP, &clamp, sizeof(clamp));
	change_algorithm(where, tuned, algorithm, TX_PASSING_THRESHOLD);
}

static __always_inline void clamp_to(void *where, struct tcp_sock *tp, struct tx_tuned *tuned,
				     u32 cap, char *algorithm)
{
	int clamp = cap;

	if (tp->snd_cwnd_clamp == cap)
		return;
	note_threshold(tp, tuned);
	if (bpf_setsockopt(where, SOL_TCP, TCP_BPF_SNDCWND_CLAMP, &clamp, sizeof(clamp)))
		return;
	tuned->clamped = 1;
	/* A limit must not start what the threshold had ended: slow start, up to the limit. */
	if (tuned->ssthresh < cap)
		change_algorithm(where, tuned, algorithm, TX_PASSING_THRESHOLD);
}

/* Whether the program has chosen another algorithm since we acted. */
static __always_inline bool chose_itself(const struct tx_tuned *tuned, const char *now)
{
	const char *given = tuned->wish.algorithm[0] ? tuned->wish.algorithm : tuned->algorithm;

	return tuned->algorithm[0] && !tuned->refused && !same_name(now, given);
}

/* What there was before us: also what the program has chosen since. */
static __always_inline void note_before(struct tcp_sock *tp, struct tx_tuned *tuned,
					const char *now)
{
	if (!tuned->algorithm[0]) {
		tuned->clamp = tp->snd_cwnd_clamp;
		tuned->clamped = 0;
		tuned->refused = 0;
		tuned->ssthresh = tp->snd_ssthresh;
	} else if (!chose_itself(tuned, now)) {
		return;
	}
	copy_name(tuned->algorithm, now);
	tuned->pacing_status = ((struct sock *)tp)->sk_pacing_status;
}

/* A limit takes effect when the window next grows: the first one would pass it. */
static __always_inline void begin_with(void *where, struct tcp_sock *tp, const struct tx_wish *wish)
{
	u32 cap = wish->steady.cap;
	int window = wish->initial_window;

	if (!window && cap && cap < tp->snd_cwnd)
		window = cap;
	if (window)
		bpf_setsockopt(where, SOL_TCP, TCP_BPF_IW, &window, sizeof(window));
}

/* `where` is what the helpers take: the context of sock_ops, or the socket of an iterator. */
static __always_inline void act(void *where, struct tcp_sock *tp, struct tx_tuned *tuned,
				const struct tx_wish *wish, bool is_new)
{
	char steady[16] = "steady", now[16] = {}, wanted[16];

	bpf_getsockopt(where, SOL_TCP, TCP_CONGESTION, now, sizeof(now));
	note_before(tp, tuned, now);
	copy_name(wanted, wish->algorithm[0] ? wish->algorithm : tuned->algorithm);
	count_action(tuned, wish);
	if (is_new)
		begin_with(where, tp, wish);
	tuned->refused = 0;
	if (!same_name(now, wanted))
		tuned->refused =
			!!change_algorithm(where, tuned, wanted, leftover_pacing(tp, tuned));
	if (wish->steady.cap && !same_name(wanted, steady))
		clamp_to(where, tp, tuned, wish->steady.cap, wanted);
	else
		unclamp(where, tp, tuned, wanted);
}

/* As it was before us, but for what the program has chosen since; the note stays for those who record. */
static __always_inline void restore(void *where, struct tcp_sock *tp, struct tx_tuned *tuned,
				    u8 rule, u8 reason)
{
	struct tx_wish nothing = {.rule = rule, .reason = reason, .restore = 1};
	char now[16] = {}, before[16];
	u32 passing = 0;

	if (!tuned->algorithm[0])
		return;
	bpf_getsockopt(where, SOL_TCP, TCP_CONGESTION, now, sizeof(now));
	if (chose_itself(tuned, now)) {
		copy_name(before, now);
	} else {
		copy_name(before, tuned->algorithm);
		passing = leftover_pacing(tp, tuned);
	}
	unclamp(where, tp, tuned, before);
	if (tp->snd_ssthresh >= INFINITE_SSTHRESH && tuned->ssthresh < INFINITE_SSTHRESH &&
	    !chose_itself(tuned, now))
		passing |= TX_PASSING_THRESHOLD;
	if (passing || !same_name(now, before))
		change_algorithm(where, tuned, before, passing);
	count_action(tuned, &nothing);
	__builtin_memset(tuned->algorithm, 0, 16);
}

SEC("sockops")
int established(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	struct tx_orders *order;
	struct tx_open who;
	struct tcp_sock *tp;
	u32 zero = 0;
	u64 cgrp;

	if (ctx->op != ACTIVE_ESTABLISHED_CB && ctx->op != PASSIVE_ESTABLISHED_CB)
		return 1;
	order = bpf_map_lookup_elem(&orders, &zero);
	if (!sk || !order)
		return 1;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 1;
	read_who(&who, tp, bpf_sk_storage_get(&owners, sk, NULL, 0));
	cgrp = (u64)socket_cgroup((struct sock *)tp);
	for (u32 i = 0; i < TX_RULES; i++) {
		struct tx_rule *rule = rule_at(i);
		struct tx_tuned *tuned;

		if (!rule || !rule->used)
			return 1;
		if (!rule_matches(rule, &who, cgrp) ||
		    !holds_now(rule, rtt_of(tp), order->terminals))
			continue;
		tuned = bpf_sk_storage_get(&transom_tuned, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
		if (tuned)
			act(ctx, tp, tuned, &rule->wish, true);
		return 1;
	}
	return 1;
}

/* The state changes while the process that connects or listens is running. */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(owned, struct sock *sk, int old, int new)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct process *owner;

	if (!tp || (new != TCP_SYN_SENT &&new != TCP_LISTEN))
		return 0;
	owner = bpf_sk_storage_get(&owners, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!owner)
		return 0;
	if (new == TCP_LISTEN)
		read_current_process(&owner->tgid, owner->comm);
	else
		read_connecting_process(&owner->tgid, owner->comm, tp);
	return 0;
}

/* Who holds what was there before us. */
SEC("iter/task_file")
int earlier_owners(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct sock *sk = socket_of(ctx);
	struct process *owner;

	if (!sk || !task)
		return 0;
	if (!bpf_skc_to_tcp_sock(sk)) {
		found_mptcp_holder(sk, task);
		return 0;
	}
	owner = bpf_sk_storage_get(&owners, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (owner && !owner->comm[0])
		read_process_name(owner->comm, task);
	return 0;
}

/*
 * The bit of the rule if it matches. Global, so that its result is any number: the
 * verifier of 6.1 would follow each combination of matching rules by itself.
 */
__noinline u64 bit_of_rule(const struct tx_open *who, u64 cgrp, u32 number)
{
	struct tx_rule *rule = rule_at(number);

	if (!who || !rule || !rule_matches(rule, who, cgrp))
		return 0;
	return 1ULL << (number % TX_RULES);
}

static __always_inline u64 matching_rules(const struct tx_open *who, struct tcp_sock *tp)
{
	u64 cgrp = (u64)socket_cgroup((struct sock *)tp), mask = 0;

	for (u32 i = 0; i < TX_RULES; i++)
		mask |= bit_of_rule(who, cgrp, i);
	return mask;
}

static __always_inline void tell(struct seq_file *seq, struct sock *sk, struct tcp_sock *tp)
{
	struct tx_tuned *tuned = bpf_sk_storage_get(&transom_tuned, sk, NULL, 0);
	struct tx_seen seen = {};

	seen.cookie = bpf_get_socket_cookie(sk);
	seen.tcp_state = tp->inet_conn.icsk_inet.sk.__sk_common.skc_state;
	seen.ca_state = BPF_CORE_READ_BITFIELD(tp, inet_conn.icsk_ca_state);
	seen.cwnd = tp->snd_cwnd;
	seen.ssthresh = tp->snd_ssthresh;
	seen.clamp = tp->snd_cwnd_clamp;
	seen.mss = tp->mss_cache;
	seen.srtt_us = tp->srtt_us >> 3;
	seen.min_rtt_us = tp->rtt_min.s[0].v;
	seen.delivered = tp->delivered;
	seen.sent = tp->data_segs_out;
	seen.retransmitted = tp->total_retrans;
	seen.timeouts = tp->inet_conn.icsk_backoff;
	seen.unsent = tp->write_seq - tp->snd_nxt;
	read_who(&seen.open, tp, bpf_sk_storage_get(&owners, sk, NULL, 0));
	seen.rules = matching_rules(&seen.open, tp);
	if (tuned)
		seen.tuned = *tuned;
	bpf_seq_write(seq, &seen, sizeof(seen));
}

static __always_inline void carry_out(struct sock *sk, struct tcp_sock *tp)
{
	u64 cookie = bpf_get_socket_cookie(sk);
	struct tx_wish *wish = bpf_map_lookup_elem(&wishes, &cookie);
	struct tx_tuned *tuned;

	if (!wish)
		return;
	tuned = bpf_sk_storage_get(&transom_tuned, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!tuned)
		return;
	if (wish->restore)
		restore(tp, tp, tuned, wish->rule, wish->reason);
	else
		act(tp, tp, tuned, wish, false);
}

/* A listening subflow of Multipath TCP is held by nobody, and those that it accepts inherit its owner. */
static __always_inline void earlier_listener(struct sock *sk, struct tcp_sock *tp)
{
	struct process holder = {};

	if (read_process_of_subflow(&holder.tgid, holder.comm, tp))
		bpf_sk_storage_get(&owners, sk, &holder, BPF_SK_STORAGE_GET_F_CREATE);
}

/* One connection after the other, in the namespace of the reader. */
SEC("iter/tcp")
int walk(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	struct tx_orders *order;
	struct tx_tuned *tuned;
	struct tcp_sock *tp;
	u32 zero = 0;
	u8 state;

	if (!skc)
		return 0;
	tp = bpf_skc_to_tcp_sock(skc);
	order = bpf_map_lookup_elem(&orders, &zero);
	if (!tp || !order)
		return 0;
	state = tp->inet_conn.icsk_inet.sk.__sk_common.skc_state;
	if (state == TCP_LISTEN)
		earlier_listener((struct sock *)tp, tp);
	if (state == TCP_LISTEN || state == TCP_CLOSE || state == TCP_SYN_SENT)
		return 0;
	switch (order->mode) {
	case TX_OBSERVE:
		tell(ctx->meta->seq, (struct sock *)tp, tp);
		break;
	case TX_ACT:
		carry_out((struct sock *)tp, tp);
		break;
	case TX_RESTORE:
		tuned = bpf_sk_storage_get(&transom_tuned, (struct sock *)tp, NULL, 0);
		if (tuned)
			restore(tp, tp, tuned, 0, TX_CLEARED);
		break;
	}
	return 0;
}
