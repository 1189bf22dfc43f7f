/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * `steady` as a congestion control of the running kernel: steady_control.h with
 * parameters of its own for each connection (tuned.h).
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "tuned.h"

static __always_inline bool steady_is_limited(const struct tcp_sock *tp)
{
	return BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited);
}

static __always_inline __u8 steady_ca_state(const struct tcp_sock *tp)
{
	return BPF_CORE_READ_BITFIELD(tp, inet_conn.icsk_ca_state);
}

static __always_inline __u32 steady_jiffies(void)
{
	return bpf_jiffies64();
}

#include "steady_control.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Of connections that nobody gave parameters. */
struct steady_parameters defaults = STEADY_DEFAULTS;

/* icsk_ca_priv: 104 bytes. */
struct steady {
	struct steady_flow flow;
	__u32 passing; /* tx_passing */
	__u32 actions; /* the machine's count when `parameters` were read */
	struct steady_parameters parameters;
};

_Static_assert(sizeof(struct steady) <= 104, "icsk_ca_priv");

static __always_inline struct tcp_sock *tcp_of(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline struct steady *steady_of(struct sock *sk)
{
	return (void *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

/* A wish without a gain is none: it was taken back. */
static __always_inline struct steady_parameters parameters_in(const struct tx_tuned *tuned)
{
	return tuned && tuned->wish.steady.gain ? tuned->wish.steady : defaults;
}

/* The socket's storage is asked only when somebody acted since: one load an ACK, and no call. */
static __always_inline const struct steady_parameters *parameters_of(struct sock *sk)
{
	__u32 zero = 0, *actions = bpf_map_lookup_elem(&transom_actions, &zero);
	struct steady *s = steady_of(sk);

	if (actions && s->actions != *actions) {
		s->actions = *actions;
		s->parameters = parameters_in(bpf_sk_storage_get(&transom_tuned, sk, NULL, 0));
	}
	return &s->parameters;
}

/*
 * Only an algorithm may write the threshold, which setting a clamp changes, and the status of
 * pacing, which bbr leaves behind: the policy passes through here to give both back.
 */
static __always_inline void pass(struct tcp_sock *tp, const struct tx_tuned *tuned)
{
	struct sock *sk = (struct sock *)tp;

	if (tuned->passing & TX_PASSING_THRESHOLD)
		tp->snd_ssthresh = tuned->ssthresh;
	if (tuned->passing & TX_PASSING_PACING) {
		sk->sk_pacing_status = SK_PACING_NONE;
		sk->sk_pacing_rate = sk->sk_max_pacing_rate;
	}
}

SEC("struct_ops")
void BPF_PROG(steady_init, struct sock *sk)
{
	struct tx_tuned *tuned = bpf_sk_storage_get(&transom_tuned, sk, NULL, 0);
	struct steady *s = steady_of(sk);
	__u32 zero = 0, *actions = bpf_map_lookup_elem(&transom_actions, &zero);

	s->actions = actions ? *actions : 0;
	s->parameters = parameters_in(tuned);
	s->passing = tuned ? tuned->passing : TX_NOT_PASSING;
	steady_note(tcp_of(sk), &s->flow);
	if (s->passing)
		pass(tcp_of(sk), tuned);
	else
		steady_begin(tcp_of(sk), &s->flow, &s->parameters);
}

SEC("struct_ops")
void BPF_PROG(steady_release, struct sock *sk)
{
	struct steady *s = steady_of(sk);

	if (!s->passing)
		steady_end(tcp_of(sk), &s->flow);
}

SEC("struct_ops")
__u32 BPF_PROG(steady_ssthresh, struct sock *sk)
{
	return steady_on_congestion(tcp_of(sk), &steady_of(sk)->flow, parameters_of(sk));
}

SEC("struct_ops")
void BPF_PROG(steady_set_state, struct sock *sk, u8 new_state)
{
	steady_on_state(tcp_of(sk), &steady_of(sk)->flow, new_state, parameters_of(sk));
}

static __always_inline void data_leaves_again(struct sock *sk)
{
	if (steady_was_idle(tcp_of(sk)))
		steady_after_rest(tcp_of(sk), &steady_of(sk)->flow, parameters_of(sk));
}

SEC("struct_ops")
void BPF_PROG(steady_cwnd_event, struct sock *sk, int event)
{
	if (event == CA_EVENT_TX_START)
		data_leaves_again(sk);
}

/* Since 7.1 that event is told here (commit d1e59a469737); before, user space takes the program out. */
SEC("struct_ops")
void BPF_PROG(steady_tx_start, struct sock *sk)
{
	data_leaves_again(sk);
}

/* Each ACK. The arguments after the socket differ between kernels (6.10) and are not used. */
SEC("struct_ops")
void BPF_PROG(steady_cong_control, struct sock *sk)
{
	steady_on_ack(tcp_of(sk), &steady_of(sk)->flow, parameters_of(sk));
}

SEC("struct_ops")
__u32 BPF_PROG(steady_undo_cwnd, struct sock *sk)
{
	return steady_undone(tcp_of(sk), &steady_of(sk)->flow, parameters_of(sk));
}

SEC("struct_ops")
__u32 BPF_PROG(steady_sndbuf_expand, struct sock *sk)
{
	return STEADY_SEND_BUFFER;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops steady = {
	.init = (void *)steady_init,
	.release = (void *)steady_release,
	.ssthresh = (void *)steady_ssthresh,
	.set_state = (void *)steady_set_state,
	.cwnd_event = (void *)steady_cwnd_event,
	.cwnd_event_tx_start = (void *)steady_tx_start,
	.cong_control = (void *)steady_cong_control,
	.undo_cwnd = (void *)steady_undo_cwnd,
	.sndbuf_expand = (void *)steady_sndbuf_expand,
	.name = "steady",
};
