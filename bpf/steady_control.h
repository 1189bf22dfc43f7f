/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * When `steady` (thesis figure 3; DICOMO 2011 section 6.2) does what to a
 * connection's window, with the arithmetic of steady.h. Once for both hosts of
 * it: a kernel that loads programs (steady.bpf.c) and the kernel that is a
 * library (linux/arch/kernel/tcp_steady.c). They say before how they read what
 * is no plain field to both:
 *
 *   bool  steady_is_limited(tp)	tcp_sock.is_cwnd_limited
 *   __u8  steady_ca_state(tp)		icsk_ca_state
 *   __u32 steady_jiffies()		the clock of tcp_sock.lsndtime
 *
 * With cong_control the kernel leaves the window to us in every state but one:
 * when the retransmission timer expires it sets it to 1.
 */
#ifndef TRANSOM_STEADY_CONTROL_H
#define TRANSOM_STEADY_CONTROL_H

#include "steady_path.h"

/* Windows of data in the send buffer: what is sent may double before the program writes again. */
#define STEADY_SEND_BUFFER 4

/* No target, an eighth, a segment, no cap. */
#define STEADY_DEFAULTS {.target = 0, .cap = 0, .backoff = 128, .gain = STEADY_ONE}

static __always_inline void steady_set_window(struct tcp_sock *tp, const struct steady_flow *flow,
					      __u32 window, const struct steady_parameters *p)
{
	struct sock *sk = (struct sock *)tp;

	window = steady_within(window, p->cap, tp->snd_cwnd_clamp);
	if (window != tp->snd_cwnd)
		tp->snd_cwnd = window;
	if (p->target)
		sk->sk_pacing_rate = steady_pace(window, tp->mss_cache, tp->srtt_us >> 3,
						 sk->sk_max_pacing_rate);
	else
		sk->sk_pacing_rate =
			steady_path_pace(tp, &flow->path, window, sk->sk_max_pacing_rate);
}

/* Once a target, when the round trip is known, for a jump is spread over it. */
static __always_inline __u32 steady_jump(struct tcp_sock *tp, struct steady_flow *flow,
					 __u32 window, const struct steady_parameters *p)
{
	if (flow->jumped_to == p->target || !tp->srtt_us)
		return window;
	flow->jumped_to = p->target;
	window = steady_within(steady_start(window, p->target), p->cap, tp->snd_cwnd_clamp);
	tp->snd_ssthresh = window;
	flow->fall_to = 0;
	flow->ceiling = window;
	return window;
}

/* Linear growth. Who was given no cap keeps to what the path takes without a queue. */
static __always_inline __u32 steady_forward(struct tcp_sock *tp, struct steady_flow *flow,
					    __u32 window, __u32 acked,
					    const struct steady_parameters *p)
{
	if (!p->cap && window >= flow->ceiling) {
		if (flow->ceiling && steady_is_queued(steady_last_rtt(tp), tp->rtt_min.s[0].v))
			return window;
		flow->ceiling = window;
	}
	return steady_grown(window, &flow->credit, acked, p->gain);
}

/* What is there before anything is done to the window. */
static __always_inline void steady_note(struct tcp_sock *tp, struct steady_flow *flow)
{
	*flow = (struct steady_flow){
		.delivered = tp->delivered,
		.delivered_ce = tp->delivered_ce,
		.before = tp->snd_cwnd,
		.pacing_status = ((struct sock *)tp)->sk_pacing_status,
	};
	steady_path_begin(tp, &flow->path);
}

static __always_inline void steady_begin(struct tcp_sock *tp, struct steady_flow *flow,
					 const struct steady_parameters *p)
{
	struct sock *sk = (struct sock *)tp;

	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
	steady_set_window(tp, flow,
			  p->target ? steady_jump(tp, flow, tp->snd_cwnd, p) : tp->snd_cwnd, p);
}

/* A limit of the program's own needs pacing, whoever has begun it. */
static __always_inline void steady_end(struct tcp_sock *tp, const struct steady_flow *flow)
{
	struct sock *sk = (struct sock *)tp;

	if (flow->pacing_status != SK_PACING_NONE || sk->sk_max_pacing_rate != ~0UL)
		return;
	sk->sk_pacing_status = SK_PACING_NONE;
	sk->sk_pacing_rate = sk->sk_max_pacing_rate;
}

/* Congestion, once a window: the kernel asks what the threshold becomes. */
static __always_inline __u32 steady_on_congestion(struct tcp_sock *tp, struct steady_flow *flow,
						  const struct steady_parameters *p)
{
	if (!p->target) {
		if (flow->path.phase != STEADY_SHARED && !flow->timeouts)
			flow->before = tp->snd_cwnd;
		if (!flow->timeouts && !steady_holds(flow) && steady_sees_queue(tp, &flow->path))
			steady_path_congested(tp, flow, p->backoff);
		return steady_max(tp->snd_cwnd, STEADY_LEAST);
	}
	/* After a timeout the window says nothing about what the path held. */
	if (!flow->timeouts)
		flow->before = tp->snd_cwnd;
	flow->credit = 0;
	flow->fall_to = steady_backed_off(flow->before, p->backoff);
	return flow->fall_to;
}

/* Called each time the timer expires, also when the state was Loss already. */
static __always_inline void steady_on_state(struct tcp_sock *tp, struct steady_flow *flow,
					    __u8 state, const struct steady_parameters *p)
{
	if (state == TCP_CA_Open)
		flow->timeouts = 0;
	if (state != TCP_CA_Loss)
		return;
	if (flow->timeouts < 3)
		flow->timeouts++;
	if (p->target)
		flow->fall_to = 0;
	if (flow->timeouts < 2)
		return;
	tp->snd_ssthresh = steady_halved(flow->before);
	if (p->target)
		flow->ceiling = steady_min(flow->ceiling, tp->snd_ssthresh);
	else
		steady_path_begin(tp, &flow->path);
}

/* Whether data leaves after an idle time, when the first of it does (CA_EVENT_TX_START). */
static __always_inline bool steady_was_idle(const struct tcp_sock *tp)
{
	/* The kernel says the same when all that is out was declared lost. */
	return !tp->packets_out && tp->lsndtime &&
	       steady_jiffies() - tp->lsndtime > tp->inet_conn.icsk_rto;
}

static __always_inline void steady_after_rest(struct tcp_sock *tp, struct steady_flow *flow,
					      const struct steady_parameters *p)
{
	__u32 window = steady_after_idle(tp->snd_cwnd, p->target);

	/* What was measured holds on: the pace keeps the window from leaving at once. */
	if (!p->target)
		window = tp->snd_cwnd;
	if (p->target && window < tp->snd_ssthresh)
		tp->snd_ssthresh = window;
	steady_set_window(tp, flow, window, p);
}

/* The window in the Loss state: one timeout is not believed, the second in a row is. */
static __always_inline __u32 steady_in_loss(const struct steady_flow *flow, __u32 window,
					    __u32 ssthresh, __u32 acked)
{
	if (flow->timeouts < 2)
		return acked ? steady_max(window, ssthresh) : window;
	return steady_slow_start(window, acked, ssthresh);
}

/* The window in CWR and Recovery: it falls once, and further if a mark comes, now or later. */
static __always_inline __u32 steady_in_reduction(struct tcp_sock *tp, struct steady_flow *flow,
						 __u32 window, bool marked, __u32 backoff)
{
	__u32 fall_to;

	if (marked && !flow->marked) {
		flow->marked = 1;
		flow->marked_to = tp->snd_nxt;
		fall_to = steady_backed_off(flow->before, steady_max(backoff, STEADY_ECN_BACKOFF));
		if (fall_to < tp->snd_ssthresh) {
			tp->snd_ssthresh = fall_to;
			flow->fall_to = fall_to;
		}
	}
	if (flow->fall_to) {
		window = steady_min(window, flow->fall_to);
		flow->fall_to = 0;
	}
	return window;
}

static __always_inline __u32 steady_in_order(struct tcp_sock *tp, struct steady_flow *flow,
					     __u32 window, __u32 acked,
					     const struct steady_parameters *p)
{
	window = steady_jump(tp, flow, window, p);
	/* RFC 7661: a window that is not used is not vouched for. */
	if (!steady_is_limited(tp))
		return window;
	if (window < tp->snd_ssthresh)
		return steady_slow_start(window, acked, tp->snd_ssthresh);
	return steady_forward(tp, flow, window, acked, p);
}

/* Without a target. The first timeout is not believed; the second has us measure anew. */
static __always_inline __u32 steady_without_target(struct tcp_sock *tp, struct steady_flow *flow,
						   __u32 acked, bool marked,
						   const struct steady_parameters *p)
{
	__u32 window;

	if (flow->jumped_to) {
		flow->jumped_to = 0;
		steady_path_begin(tp, &flow->path);
	}
	if (marked)
		steady_path_congested(tp, flow, steady_max(p->backoff, STEADY_ECN_BACKOFF));
	window = tp->snd_cwnd;
	if (flow->timeouts == 1 && acked)
		window = steady_max(window, flow->before);
	return steady_on_path(tp, flow, window, acked);
}

static __always_inline void steady_on_ack(struct tcp_sock *tp, struct steady_flow *flow,
					  const struct steady_parameters *p)
{
	__u32 window = tp->snd_cwnd, acked = tp->delivered - flow->delivered;
	bool marked = tp->delivered_ce != flow->delivered_ce;
	__u8 state = steady_ca_state(tp);

	flow->delivered = tp->delivered;
	flow->delivered_ce = tp->delivered_ce;
	/* RFC 3168 section 6.1.2: once a window, though the kernel may enter CWR again at its end. */
	if (flow->marked && (__s32)(tp->snd_una - flow->marked_to) > 0)
		flow->marked = 0;
	if (!p->target)
		window = steady_without_target(tp, flow, acked, marked, p);
	else if (state == TCP_CA_Loss)
		window = steady_in_loss(flow, window, tp->snd_ssthresh, acked);
	else if (state == TCP_CA_CWR || state == TCP_CA_Recovery || flow->fall_to)
		window = steady_in_reduction(tp, flow, window, marked, p->backoff);
	else
		window = steady_in_order(tp, flow, window, acked, p);
	steady_set_window(tp, flow, window, p);
}

/* It was no congestion (Eifel, F-RTO, D-SACK): as if nothing had been. */
static __always_inline __u32 steady_undone(struct tcp_sock *tp, struct steady_flow *flow,
					   const struct steady_parameters *p)
{
	if (p->target)
		flow->fall_to = 0;
	flow->timeouts = 0;
	return steady_within(steady_max(tp->snd_cwnd, flow->before), p->cap, tp->snd_cwnd_clamp);
}

#endif
