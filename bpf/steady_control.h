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

#include "steady.h"

/* No jump, an eighth, a segment, no cap. */
#define STEADY_DEFAULTS {.target = 0, .cap = 0, .backoff = 128, .gain = STEADY_ONE}

/* What is kept of a connection. */
struct steady_flow {
	__u64 credit;	      /* see steady_grown */
	__u32 delivered;      /* tcp_sock.delivered at the last ACK */
	__u32 delivered_ce;   /* tcp_sock.delivered_ce at the last ACK */
	__u32 before;	      /* the window before congestion, for undo and for halving */
	__u32 fall_to;	      /* window to take at the next ACK; 0 = none */
	__u32 jumped_to;      /* the target we last jumped to */
	__u32 timeouts;	      /* in a row */
	__u32 pacing_status;  /* before us */
	__u32 marked;	      /* a mark was answered in this window … */
	__u32 marked_to;      /* … whose end is here */
	__u32 ceiling;	      /* largest window at which the path showed no queue */
	__u32 queued;	      /* segments in a row that met a queue, in slow start */
	__u32 look;	      /* slow start has paused, to see what the path holds */
	__u32 look_from;      /* µs of tcp_sock.tcp_mstamp, … */
	__u32 look_delivered; /* … and tcp_sock.delivered when it did */
};

static __always_inline void steady_set_window(struct tcp_sock *tp, __u32 window,
					      const struct steady_parameters *p)
{
	struct sock *sk = (struct sock *)tp;

	window = steady_within(window, p->cap, tp->snd_cwnd_clamp);
	if (window != tp->snd_cwnd)
		tp->snd_cwnd = window;
	sk->sk_pacing_rate =
		steady_pace(window, tp->mss_cache, tp->srtt_us >> 3, sk->sk_max_pacing_rate);
}

/* Once a target, when the round trip is known, for a jump is spread over it. */
static __always_inline __u32 steady_jump(struct tcp_sock *tp, struct steady_flow *flow,
					 __u32 window, const struct steady_parameters *p)
{
	if (flow->jumped_to == p->target || !tp->srtt_us)
		return window;
	flow->jumped_to = p->target;
	if (!p->target)
		return window;
	window = steady_within(steady_start(window, p->target), p->cap, tp->snd_cwnd_clamp);
	tp->snd_ssthresh = window;
	flow->ceiling = window;
	flow->look = false;
	return window;
}

static __always_inline bool steady_sees_queue(const struct tcp_sock *tp)
{
	return steady_is_queued(tp->rack.rtt_us, tp->rtt_min.s[0].v);
}

/*
 * Slow start pauses. Half the window is what the last round trip brought through; what
 * the whole window brings through shows in the next one, and decides (steady_settle).
 */
static __always_inline __u32 steady_look(struct tcp_sock *tp, struct steady_flow *flow,
					 __u32 window)
{
	flow->before = window;
	flow->look = true;
	flow->look_from = tp->tcp_mstamp;
	flow->look_delivered = tp->delivered;
	flow->queued = 0;
	return steady_halved(window);
}

/*
 * A round trip later. Where the path brought through clearly less than the window, that is what
 * it holds; else the window stays, and slow start goes on if nothing was lost.
 */
static __always_inline __u32 steady_settle(struct tcp_sock *tp, struct steady_flow *flow,
					   __u32 window)
{
	__u32 elapsed = (__u32)tp->tcp_mstamp - flow->look_from, pipe;

	if (elapsed < tp->srtt_us >> 3)
		return window;
	flow->look = false;
	window = steady_min(flow->before, tp->snd_ssthresh);
	pipe = steady_pipe(tp->delivered - flow->look_delivered, elapsed, tp->rtt_min.s[0].v);
	/* What a program did not send says nothing about the path. */
	if (tp->app_limited || pipe >= flow->before - flow->before / 4)
		return window;
	window = steady_min(window, pipe);
	tp->snd_ssthresh = window;
	flow->ceiling = window;
	return window;
}

/* Slow start, until the path shows a queue for longer than noise would. */
static __always_inline __u32 steady_slowly(struct tcp_sock *tp, struct steady_flow *flow,
					   __u32 window, __u32 acked)
{
	if (!steady_sees_queue(tp))
		flow->queued = 0;
	else
		flow->queued += steady_min(acked, STEADY_QUEUED_PER_ACK);
	if (flow->queued >= STEADY_QUEUED_SEGMENTS)
		return steady_look(tp, flow, window);
	return steady_slow_start(window, acked, tp->snd_ssthresh);
}

/* Linear growth. Who was given no cap keeps to what the path takes without a queue. */
static __always_inline __u32 steady_forward(struct tcp_sock *tp, struct steady_flow *flow,
					    __u32 window, __u32 acked,
					    const struct steady_parameters *p)
{
	if (!p->cap && window >= flow->ceiling) {
		if (flow->ceiling && steady_sees_queue(tp))
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
}

static __always_inline void steady_begin(struct tcp_sock *tp, struct steady_flow *flow,
					 const struct steady_parameters *p)
{
	struct sock *sk = (struct sock *)tp;

	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
	steady_set_window(tp, steady_jump(tp, flow, tp->snd_cwnd, p), p);
}

static __always_inline void steady_end(struct tcp_sock *tp, const struct steady_flow *flow)
{
	struct sock *sk = (struct sock *)tp;

	if (flow->pacing_status != SK_PACING_NONE)
		return;
	sk->sk_pacing_status = SK_PACING_NONE;
	sk->sk_pacing_rate = sk->sk_max_pacing_rate;
}

/* Congestion, once a window: the kernel asks what the threshold becomes. */
static __always_inline __u32 steady_on_congestion(struct tcp_sock *tp, struct steady_flow *flow,
						  const struct steady_parameters *p)
{
	bool slow = tp->snd_cwnd < tp->snd_ssthresh;
	__u32 threshold;

	/* After a timeout the window says nothing about what the path held; nor does a half of it. */
	if (!flow->timeouts && !flow->look)
		flow->before = tp->snd_cwnd;
	threshold = steady_backed_off(flow->before, p->backoff);
	flow->credit = 0;
	if (flow->look)
		flow->fall_to = 0;
	else if (slow && !flow->timeouts)
		flow->fall_to = steady_look(tp, flow, flow->before);
	else
		flow->fall_to = threshold;
	return threshold;
}

/* Called each time the timer expires, also when the state was Loss already. */
static __always_inline void steady_on_state(struct tcp_sock *tp, struct steady_flow *flow,
					    __u8 state)
{
	if (state == TCP_CA_Loss) {
		flow->timeouts++;
		flow->fall_to = 0;
		flow->look = false;
		if (flow->timeouts >= 2) {
			tp->snd_ssthresh = steady_halved(flow->before);
			flow->ceiling = steady_min(flow->ceiling, tp->snd_ssthresh);
		}
	} else if (state == TCP_CA_Open) {
		flow->timeouts = 0;
	}
}

/* Whether data leaves after an idle time, at CA_EVENT_TX_START. */
static __always_inline bool steady_was_idle(const struct tcp_sock *tp)
{
	/* The kernel says the same when all that is out was declared lost. */
	return !tp->packets_out && tp->lsndtime &&
	       steady_jiffies() - tp->lsndtime > tp->inet_conn.icsk_rto;
}

static __always_inline void steady_after_rest(struct tcp_sock *tp,
					      const struct steady_parameters *p)
{
	__u32 window = steady_after_idle(tp->snd_cwnd, p->target);

	if (p->target && window < tp->snd_ssthresh)
		tp->snd_ssthresh = window;
	steady_set_window(tp, window, p);
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
	return flow->look ? steady_settle(tp, flow, window) : window;
}

static __always_inline __u32 steady_in_order(struct tcp_sock *tp, struct steady_flow *flow,
					     __u32 window, __u32 acked,
					     const struct steady_parameters *p)
{
	window = steady_jump(tp, flow, window, p);
	if (flow->look)
		return steady_settle(tp, flow, window);
	/* RFC 7661: a window that is not used is not vouched for. */
	if (!steady_is_limited(tp))
		return window;
	if (window < tp->snd_ssthresh)
		return steady_slowly(tp, flow, window, acked);
	return steady_forward(tp, flow, window, acked, p);
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
	if (state == TCP_CA_Loss)
		window = steady_in_loss(flow, window, tp->snd_ssthresh, acked);
	else if (state == TCP_CA_CWR || state == TCP_CA_Recovery || flow->fall_to)
		window = steady_in_reduction(tp, flow, window, marked, p->backoff);
	else
		window = steady_in_order(tp, flow, window, acked, p);
	steady_set_window(tp, window, p);
}

/* It was no congestion (Eifel, F-RTO, D-SACK): as if nothing had been. */
static __always_inline __u32 steady_undone(struct tcp_sock *tp, struct steady_flow *flow,
					   const struct steady_parameters *p)
{
	flow->fall_to = 0;
	flow->timeouts = 0;
	flow->look = false;
	return steady_within(steady_max(tp->snd_cwnd, flow->before), p->cap, tp->snd_cwnd_clamp);
}

#endif
