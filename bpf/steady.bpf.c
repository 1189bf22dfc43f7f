/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * `steady`, the papers' own TCP (thesis figure 3; DICOMO 2011 section 6.2) as a
 * congestion control of the kernel: the window jumps to a target at once, gives
 * a little up at congestion, and grows linearly from there, up to a cap.
 *
 * With cong_control the kernel leaves the window to us in every state but one:
 * when the retransmission timer expires it sets it to 1.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "tuned.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Of connections that nobody gave parameters: no jump, an eighth, a segment, no cap. */
struct steady_parameters defaults = {.target = 0, .cap = 0, .backoff = 128, .gain = STEADY_ONE};

/* icsk_ca_priv: 104 bytes. */
struct steady {
	__u64 credit;	     /* see steady_grown */
	__u32 delivered;     /* tcp_sock.delivered at the last ACK */
	__u32 before;	     /* the window before congestion, for undo and for halving */
	__u32 fall_to;	     /* window to take at the next ACK; 0 = none */
	__u32 jumped_to;     /* the target we last jumped to */
	__u32 timeouts;	     /* in a row */
	__u32 pacing_status; /* before us */
	__u32 delivered_ce;  /* tcp_sock.delivered_ce at the last ACK */
	__u32 marked;	     /* a mark was answered in this window … */
	__u32 marked_to;     /* … whose end is here */
	__u32 passing;	     /* see tx_tuned */
	__u32 actions;	     /* the machine's count when `parameters` were read */
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

static __always_inline void set_window(struct sock *sk, __u32 window,
				       const struct steady_parameters *p)
{
	struct tcp_sock *tp = tcp_of(sk);

	window = steady_within(window, p->cap, tp->snd_cwnd_clamp);
	if (window != tp->snd_cwnd)
		tp->snd_cwnd = window;
	sk->sk_pacing_rate =
		steady_pace(window, tp->mss_cache, tp->srtt_us >> 3, sk->sk_max_pacing_rate);
}

/* Once a target, when the round trip is known, for a jump is spread over it. */
static __always_inline __u32 jump(struct sock *sk, __u32 window, const struct steady_parameters *p)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct steady *s = steady_of(sk);

	if (s->jumped_to == p->target || !tp->srtt_us)
		return window;
	s->jumped_to = p->target;
	if (!p->target)
		return window;
	window = steady_within(steady_start(window, p->target), p->cap, tp->snd_cwnd_clamp);
	tp->snd_ssthresh = window;
	return window;
}

SEC("struct_ops")
void BPF_PROG(steady_init, struct sock *sk)
{
	struct tx_tuned *tuned = bpf_sk_storage_get(&transom_tuned, sk, NULL, 0);
	struct tcp_sock *tp = tcp_of(sk);
	struct steady *s = steady_of(sk);
	__u32 zero = 0, *actions = bpf_map_lookup_elem(&transom_actions, &zero);

	s->actions = actions ? *actions : 0;
	s->parameters = parameters_in(tuned);
	s->credit = 0;
	s->delivered = tp->delivered;
	s->before = tp->snd_cwnd;
	s->fall_to = 0;
	s->jumped_to = 0;
	s->timeouts = 0;
	s->delivered_ce = tp->delivered_ce;
	s->marked = 0;
	s->pacing_status = sk->sk_pacing_status;
	s->passing = tuned && tuned->passing;
	/*
	 * Setting a clamp sets the threshold too (bpf_setsockopt), and only an
	 * algorithm may write it: the policy passes through here to give it back.
	 */
	if (s->passing) {
		tp->snd_ssthresh = tuned->ssthresh;
		return;
	}
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
	set_window(sk, jump(sk, tp->snd_cwnd, &s->parameters), &s->parameters);
}

SEC("struct_ops")
void BPF_PROG(steady_release, struct sock *sk)
{
	struct steady *s = steady_of(sk);

	if (s->passing || s->pacing_status != SK_PACING_NONE)
		return;
	sk->sk_pacing_status = SK_PACING_NONE;
	sk->sk_pacing_rate = sk->sk_max_pacing_rate;
}

/* Congestion, once a window: the kernel asks what the threshold becomes. */
SEC("struct_ops")
__u32 BPF_PROG(steady_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct steady *s = steady_of(sk);

	/* After a timeout the window says nothing about what the path held. */
	if (!s->timeouts)
		s->before = tp->snd_cwnd;
	s->fall_to = steady_backed_off(s->before, parameters_of(sk)->backoff);
	s->credit = 0;
	return s->fall_to;
}

/* Called each time the timer expires, also when the state was Loss already. */
SEC("struct_ops")
void BPF_PROG(steady_set_state, struct sock *sk, u8 new_state)
{
	struct steady *s = steady_of(sk);

	if (new_state == TCP_CA_Loss) {
		s->timeouts++;
		s->fall_to = 0;
		if (s->timeouts >= 2)
			tcp_of(sk)->snd_ssthresh = steady_halved(s->before);
	} else if (new_state == TCP_CA_Open) {
		s->timeouts = 0;
	}
}

SEC("struct_ops")
void BPF_PROG(steady_cwnd_event, struct sock *sk, int event)
{
	struct tcp_sock *tp = tcp_of(sk);
	const struct steady_parameters *p;
	__u32 window;

	/* The kernel says the same when all that is out was declared lost. */
	if (event != CA_EVENT_TX_START || tp->packets_out || !tp->lsndtime ||
	    (__u32)bpf_jiffies64() - tp->lsndtime <= tp->inet_conn.icsk_rto)
		return;
	p = parameters_of(sk);
	window = steady_after_idle(tp->snd_cwnd, p->target);
	if (p->target && window < tp->snd_ssthresh)
		tp->snd_ssthresh = window;
	set_window(sk, window, p);
}

/* The window in the Loss state: one timeout is not believed, the second in a row is. */
static __always_inline __u32 in_loss(const struct steady *s, __u32 window, __u32 ssthresh,
				     __u32 acked)
{
	if (s->timeouts < 2)
		return acked ? steady_max(window, ssthresh) : window;
	return steady_slow_start(window, acked, ssthresh);
}

/* The window in CWR and Recovery: it falls once, and further if a mark comes, now or later. */
static __always_inline __u32 in_reduction(struct sock *sk, __u32 window, bool marked, __u32 backoff)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct steady *s = steady_of(sk);
	__u32 fall_to;

	if (marked && !s->marked) {
		s->marked = 1;
		s->marked_to = tp->snd_nxt;
		fall_to = steady_backed_off(s->before, steady_max(backoff, STEADY_ECN_BACKOFF));
		if (fall_to < tp->snd_ssthresh) {
			tp->snd_ssthresh = fall_to;
			s->fall_to = fall_to;
		}
	}
	if (!s->fall_to)
		return window;
	window = steady_min(window, s->fall_to);
	s->fall_to = 0;
	return window;
}

/* Each ACK. The arguments after the socket differ between kernels (6.10) and are not used. */
SEC("struct_ops")
void BPF_PROG(steady_cong_control, struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct steady *s = steady_of(sk);
	const struct steady_parameters *p = parameters_of(sk);
	__u32 window = tp->snd_cwnd, acked = tp->delivered - s->delivered;
	bool marked = tp->delivered_ce != s->delivered_ce;
	__u8 state = BPF_CORE_READ_BITFIELD(tp, inet_conn.icsk_ca_state);

	s->delivered = tp->delivered;
	s->delivered_ce = tp->delivered_ce;
	/* RFC 3168 section 6.1.2: once a window, though the kernel may enter CWR again at its end. */
	if (s->marked && (__s32)(tp->snd_una - s->marked_to) > 0)
		s->marked = 0;
	if (state == TCP_CA_Loss) {
		window = in_loss(s, window, tp->snd_ssthresh, acked);
	} else if (state == TCP_CA_CWR || state == TCP_CA_Recovery || s->fall_to) {
		window = in_reduction(sk, window, marked, p->backoff);
	} else {
		window = jump(sk, window, p);
		if (!BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
			; /* RFC 7661: a window that is not used is not vouched for. */
		else if (window < tp->snd_ssthresh)
			window = steady_slow_start(window, acked, tp->snd_ssthresh);
		else
			window = steady_grown(window, &s->credit, acked, p->gain);
	}
	set_window(sk, window, p);
}

/* It was no congestion (Eifel, F-RTO, D-SACK): as if nothing had been. */
SEC("struct_ops")
__u32 BPF_PROG(steady_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct steady *s = steady_of(sk);

	s->fall_to = 0;
	s->timeouts = 0;
	return steady_within(steady_max(tp->snd_cwnd, s->before), parameters_of(sk)->cap,
			     tp->snd_cwnd_clamp);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops steady = {
	.init = (void *)steady_init,
	.release = (void *)steady_release,
	.ssthresh = (void *)steady_ssthresh,
	.set_state = (void *)steady_set_state,
	.cwnd_event = (void *)steady_cwnd_event,
	.cong_control = (void *)steady_cong_control,
	.undo_cwnd = (void *)steady_undo_cwnd,
	.name = "steady",
};
