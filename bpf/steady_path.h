/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * How `steady` without a target finds its window, once for both hosts of it (steady_control.h).
 *
 * Two numbers are measured: the path's rate (the largest delivery rate of the last ten round
 * trips) and its least round trip (of the last 10 to 20 s). Their product is the pipe, what the
 * path holds without a queue. While the queue goes when we give way, the path is ours: we send at
 * the measured rate, and try more for a round trip now and then. Where it stays, others hold it:
 * then the window is CUBIC's (RFC 9438), so that they keep their share and we ours.
 */
#ifndef TRANSOM_STEADY_PATH_H
#define TRANSOM_STEADY_PATH_H

#include "steady.h"
#include "steady_flow.h"

/* Round trips of a measurement of the rate; there are two, the current one and the one before. */
#define STEADY_RATE_ROUNDS 5
/* Round trips without more rate that end slow start. */
#define STEADY_FULL_ROUNDS 3
#define STEADY_DRAIN_ROUNDS 8
#define STEADY_CRUISE_ROUNDS 6
/* Round trips at half a pipe: what was sent in the first shows in the second. */
#define STEADY_YIELD_ROUNDS 2
/* Round trips without a queue after which the path is taken for ours again. */
#define STEADY_QUIET_ROUNDS 3
/* More lost in a round trip than this part of what came through is much. */
#define STEADY_MUCH 5
/* A loss that is above this share (2^-16: a tenth) for so many round trips in which we gave way is
 * not ours to end; then the rate is held for so many. */
#define STEADY_LOSSY 6554
#define STEADY_LOSSY_ROUNDS 16
#define STEADY_HELD_ROUNDS 224
/* How long a least round trip counts, at least. */
#define STEADY_RTT_US 10000000
/* A round trip that does not become shorter by this part when we give way, after so long without a
 * loss, is not one through a queue. */
#define STEADY_UNMOVED 32
#define STEADY_CALM_US 5000000
/* The shortest round trip of a phase is not longer by this through noise alone. */
#define STEADY_STOOD_US 1000
/* No path holds more segments: what is reckoned from it stays within 32 bits. */
#define STEADY_MOST_PIPE (1U << 28)
/* Segments beside the pipe: delayed ACKs, and what is handed to the device at once. */
#define STEADY_SPARE 4

static __always_inline void steady_enter(struct steady_path *path, __u8 phase)
{
	path->phase = phase;
	path->rounds = 0;
	path->least_us = ~0U;
}

static __always_inline __u32 steady_path_rate(const struct steady_path *path)
{
	return steady_max(path->rate[0], path->rate[1]);
}

static __always_inline __u32 steady_path_rtt(const struct steady_path *path)
{
	return steady_min(path->rtt_us[0], path->rtt_us[1]);
}

static __always_inline __u32 steady_path_pipe(const struct steady_path *path)
{
	return steady_min(steady_pipe(steady_path_rate(path), steady_path_rtt(path)),
			  STEADY_MOST_PIPE);
}

/* The last round trip. The kernel measures each only with SACK; without, there is the mean. */
static __always_inline __u32 steady_last_rtt(const struct tcp_sock *tp)
{
	__u32 rtt_us = tp->rack.rtt_us;

	return rtt_us ? rtt_us : tp->srtt_us >> 3;
}

/* Two segments that pass at once are no queue. */
static __always_inline bool steady_is_more(const struct steady_path *path, __u32 wait_us)
{
	return (__u64)wait_us * steady_path_rate(path) >> STEADY_RATE_SHIFT >= 2;
}

/* A queue: a round trip longer than noise makes it, and by more than a few segments need. */
static __always_inline bool steady_waited(const struct steady_path *path, __u32 rtt_us)
{
	__u32 least = steady_path_rtt(path);

	return steady_is_queued(rtt_us, least) && steady_is_more(path, rtt_us - least);
}

/* Whether a round trip is longer by more than this part of the least one. */
static __always_inline bool steady_is_longer(const struct steady_path *path, __u32 rtt_us,
					     __u32 part)
{
	__u32 least = steady_path_rtt(path), wait_us = rtt_us - least;

	if (rtt_us == ~0U || rtt_us < least)
		return false;
	return wait_us >= STEADY_STOOD_US && wait_us > least / part &&
	       steady_is_more(path, wait_us);
}

/* Whether such a queue stood all the time. */
static __always_inline bool steady_stood(const struct steady_path *path, __u32 part)
{
	return steady_is_longer(path, path->least_us, part);
}

/* Where others hold a queue, a wait that would be noise elsewhere is in theirs. */
static __always_inline bool steady_sees_queue(const struct tcp_sock *tp,
					      const struct steady_path *path)
{
	__u32 rtt_us = steady_last_rtt(tp);

	return steady_waited(path, rtt_us) ||
	       (path->phase == STEADY_SHARED && steady_is_longer(path, rtt_us, 4));
}

static __always_inline void steady_path_begin(struct tcp_sock *tp, struct steady_path *path)
{
	*path = (struct steady_path){
		.rtt_us = {~0U, ~0U},
		.rtt_since = (__u32)tp->tcp_mstamp,
		.round = (__u32)tp->tcp_mstamp,
		.lost = tp->lost,
	};
	steady_enter(path, STEADY_START);
}

/* Whether 10 s of the least round trip have ended with this ACK. */
static __always_inline bool steady_measure(struct tcp_sock *tp, struct steady_path *path)
{
	__u32 rtt_us = steady_last_rtt(tp), now = (__u32)tp->tcp_mstamp;
	bool ended = now - path->rtt_since > STEADY_RTT_US;

	if (ended) {
		path->rtt_us[1] = path->rtt_us[0];
		path->rtt_us[0] = ~0U;
		path->rtt_since = now;
	}
	if (rtt_us) {
		path->rtt_us[0] = steady_min(path->rtt_us[0], rtt_us);
		path->least_us = steady_min(path->least_us, rtt_us);
	}
	if (tp->rate_interval_us)
		path->rate[0] = steady_max(path->rate[0],
					   steady_rate(tp->rate_delivered, tp->rate_interval_us));
	return ended;
}

/*
 * Others hold the queue: CUBIC's window, from the one on that keeps in spite of it the rate that was
 * there before.
 */
static __always_inline void steady_share(struct tcp_sock *tp, struct steady_flow *flow,
					 __u32 rtt_us)
{
	__u32 rate = steady_max(steady_path_rate(&flow->path), flow->path.full);

	tp->snd_cwnd = steady_max(steady_pipe(rate, rtt_us), STEADY_SPARE);
	steady_enter(&flow->path, STEADY_SHARED);
	flow->before = tp->snd_cwnd;
	flow->credit = 0;
	flow->path.reduced = (__u32)tp->tcp_mstamp;
	flow->path.time_ms = 0;
	flow->path.growing = false;
}

/* Whether losses do not count: they stayed when we gave way. */
static __always_inline bool steady_holds(const struct steady_flow *flow)
{
	return flow->lossy >= STEADY_LOSSY_ROUNDS;
}

/* The path is ours. */
static __always_inline void steady_own(struct steady_path *path)
{
	steady_enter(path, STEADY_CRUISE);
	path->full = 0;
	path->ceiling = 0;
}

/* Whether more data waits than the path took: only then does its rate show. */
static __always_inline bool steady_is_busy(const struct tcp_sock *tp)
{
	return tp->write_seq != tp->snd_nxt;
}

/* Slow start: has the rate grown by a quarter? */
static __always_inline void steady_start_round(struct steady_path *path, bool busy)
{
	__u32 rate = steady_path_rate(path);

	if (!busy || rate >= path->full + path->full / 4) {
		path->full = steady_max(path->full, rate);
		path->rounds = 0;
	} else if (path->rounds >= STEADY_FULL_ROUNDS) {
		steady_enter(path, STEADY_DRAIN);
	}
}

static __always_inline void steady_cruise_round(struct tcp_sock *tp, struct steady_flow *flow)
{
	struct steady_path *path = &flow->path;

	/* What was sent in LESS has been acknowledged. */
	if (path->rounds == 1 && !steady_holds(flow) && steady_stood(path, 2)) {
		steady_share(tp, flow, path->least_us);
	} else if (path->rounds >= STEADY_CRUISE_ROUNDS) {
		path->full = steady_path_rate(path);
		steady_enter(path, STEADY_MORE);
	}
}

static __always_inline void steady_shared_round(struct tcp_sock *tp, struct steady_flow *flow)
{
	struct steady_path *path = &flow->path;

	if (steady_stood(path, 4))
		path->rounds = 0;
	path->growing = path->least_us > path->last_us + path->last_us / 64;
	path->last_us = path->least_us;
	path->least_us = ~0U;
	if (path->rounds >= STEADY_QUIET_ROUNDS)
		steady_own(path);
}

/* What came of giving way: nothing, then the path has become longer; or the queue went, or stayed. */
static __always_inline void steady_yielded(struct tcp_sock *tp, struct steady_flow *flow)
{
	struct steady_path *path = &flow->path;
	__u32 calm = (__u32)tp->tcp_mstamp - path->reduced, window = flow->before;
	bool stood = steady_stood(path, 4);

	if (stood && calm > STEADY_CALM_US &&
	    path->least_us + path->least_us / STEADY_UNMOVED >= path->last_us) {
		path->rtt_us[0] = path->rtt_us[1] = path->least_us;
		stood = false;
	}
	if (!stood) {
		steady_own(path);
		return;
	}
	steady_share(tp, flow, path->least_us);
	tp->snd_cwnd = flow->before = window;
}

/* How much is lost, and for how long: whose losses those are. */
static __always_inline void steady_judge_losses(struct tcp_sock *tp, struct steady_flow *flow)
{
	struct steady_path *path = &flow->path;
	__u32 lost = tp->lost - path->lost;
	__u64 share = ((__u64)lost << 16) / ((__u64)lost + tp->rate_delivered + 1);

	flow->loss = flow->loss - flow->loss / 8 + (__u32)share / 8;
	if (path->phase == STEADY_START || path->phase == STEADY_DRAIN)
		return;
	if (flow->loss > STEADY_LOSSY)
		flow->lossy++;
	else if (steady_holds(flow))
		flow->lossy = 0;
	else if (flow->lossy)
		flow->lossy--;
	if (flow->lossy == STEADY_LOSSY_ROUNDS)
		steady_own(path);
	else if (flow->lossy > STEADY_LOSSY_ROUNDS + STEADY_HELD_ROUNDS)
		flow->lossy = 0;
}

/* A round trip has ended. */
static __always_inline void steady_round(struct tcp_sock *tp, struct steady_flow *flow)
{
	struct steady_path *path = &flow->path;
	__u32 rate;
	bool busy = !flow->rested;

	flow->rested = 0;

	steady_judge_losses(tp, flow);
	/* Much was lost without a queue: a policer, which takes no more than what came through. */
	if (!steady_holds(flow) && tp->lost - path->lost > tp->rate_delivered / STEADY_MUCH &&
	    !steady_sees_queue(tp, path)) {
		path->rate[0] = path->rate[1] =
			steady_rate(tp->rate_delivered, tp->rate_interval_us);
	}
	path->lost = tp->lost;
	path->round = (__u32)tp->tcp_mstamp;
	if (path->rounds < 255)
		path->rounds++;
	if (busy && ++path->rate_rounds >= STEADY_RATE_ROUNDS) {
		path->rate_rounds = 0;
		path->rate[1] = path->rate[0];
		path->rate[0] = 0;
	}
	rate = steady_path_rate(path);
	switch (path->phase) {
	case STEADY_START:
		steady_start_round(path, busy);
		break;
	case STEADY_DRAIN:
		if (path->rounds >= STEADY_DRAIN_ROUNDS)
			steady_own(path);
		break;
	case STEADY_CRUISE:
		steady_cruise_round(tp, flow);
		break;
	case STEADY_MORE:
		if (path->ceiling)
			path->ceiling =
				steady_min(path->ceiling + path->ceiling / 4 + 1, STEADY_MOST_PIPE);
		steady_enter(path, STEADY_LESS);
		break;
	case STEADY_LESS:
		if (rate >= path->full + path->full / 8) {
			path->full = rate;
			steady_enter(path, STEADY_MORE);
		} else {
			path->phase = STEADY_CRUISE;
			path->rounds = 0;
		}
		break;
	case STEADY_SHARED:
		steady_shared_round(tp, flow);
		break;
	case STEADY_YIELD:
		if (path->rounds >= STEADY_YIELD_ROUNDS)
			steady_yielded(tp, flow);
		break;
	}
}

/* RFC 9438: the larger of CUBIC's window and one that grows as Reno's would. */
static __always_inline __u32 steady_shared_window(struct tcp_sock *tp, struct steady_flow *flow,
						  __u32 window, __u32 acked)
{
	__u32 ms = ((__u32)tp->tcp_mstamp - flow->path.reduced) / 1000;

	if (!steady_is_limited(tp) || !flow->path.growing)
		return window;
	window = steady_grown(window, &flow->credit, acked, STEADY_CUBIC_GAIN);
	return steady_max(window, steady_min(steady_cubic(ms, flow->path.time_ms, flow->before),
					     window + acked));
}

/* Twice what the path holds: beside others who keep a queue, what we send is in it for as long. */
static __always_inline __u32 steady_path_window(const struct steady_path *path, __u32 now)
{
	__u32 pipe = steady_path_pipe(path), window = 2 * pipe + STEADY_SPARE;

	/* No round trip was measured yet: nothing says what the path holds. */
	if (steady_path_rtt(path) == ~0U)
		return now;
	if (path->phase == STEADY_YIELD)
		window = pipe / 2;
	else if (path->phase == STEADY_LESS)
		window = pipe;
	if (path->ceiling)
		window = steady_min(window, path->ceiling);
	return steady_max(window, STEADY_LEAST);
}

static __always_inline __u32 steady_start_window(struct tcp_sock *tp,
						 const struct steady_path *path, __u32 window,
						 __u32 acked)
{
	__u32 most = 3 * steady_path_pipe(path) + STEADY_BURST;

	if (!steady_is_limited(tp) || window >= most)
		return window;
	return steady_min(window + acked, most);
}

static __always_inline __u32 steady_on_path(struct tcp_sock *tp, struct steady_flow *flow,
					    __u32 window, __u32 acked)
{
	struct steady_path *path = &flow->path;

	if (steady_measure(tp, path) && path->phase == STEADY_SHARED) {
		flow->before = window;
		steady_enter(path, STEADY_YIELD);
	}
	if (!steady_is_busy(tp))
		flow->rested = 1;
	if ((__u32)tp->tcp_mstamp - path->round >= tp->srtt_us >> 3)
		steady_round(tp, flow);
	if (path->phase == STEADY_SHARED)
		window = tp->snd_cwnd;
	if (path->phase == STEADY_DRAIN &&
	    tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out <=
		    steady_path_pipe(path))
		steady_own(path);
	if (path->phase == STEADY_START)
		return steady_start_window(tp, path, window, acked);
	if (path->phase == STEADY_SHARED)
		return steady_shared_window(tp, flow, window, acked);
	return steady_path_window(path, window);
}

/* A queue that stood when a segment was lost, or a mark: that was congestion. */
static __always_inline void steady_path_congested(struct tcp_sock *tp, struct steady_flow *flow,
						  __u32 backoff)
{
	struct steady_path *path = &flow->path;
	__u32 window = tp->snd_cwnd, sent = steady_min(window, tp->packets_out);

	if (flow->marked)
		return;
	flow->marked = 1;
	flow->marked_to = tp->snd_nxt;
	if (path->phase == STEADY_START) {
		steady_enter(path, STEADY_DRAIN);
		return;
	}
	if (path->phase == STEADY_SHARED) {
		/* RFC 9438 section 4.7: who has less than before leaves more to newcomers. */
		flow->before =
			window < flow->before
				? steady_backed_off(window, (STEADY_ONE - STEADY_CUBIC_BETA) / 2)
				: window;
		window = steady_backed_off(window, STEADY_ONE - STEADY_CUBIC_BETA);
		flow->credit = 0;
		path->time_ms = steady_cubic_time(window, flow->before);
		path->reduced = (__u32)tp->tcp_mstamp;
		tp->snd_cwnd = window;
	} else if (path->phase == STEADY_CRUISE && path->rounds > 1) {
		/* We send what the path takes: the queue is of others, who give up as much. */
		path->ceiling = steady_max(steady_backed_off(sent, STEADY_ONE - STEADY_CUBIC_BETA),
					   STEADY_SPARE);
	} else if (backoff) {
		/* More was tried. */
		path->ceiling =
			steady_max(steady_backed_off(sent, backoff), steady_path_pipe(path));
	}
}

/* Bytes a second. */
static __always_inline __u64 steady_path_pace(const struct tcp_sock *tp,
					      const struct steady_path *path, __u32 window,
					      __u64 most)
{
	__u64 rate = steady_bytes(steady_path_rate(path), tp->mss_cache), wide;
	__u32 srtt_us = tp->srtt_us >> 3;

	switch (path->phase) {
	case STEADY_START:
		/* Twice the window a round trip, as the kernel's slow start, or what came through. */
		wide = steady_pace(2 * window, tp->mss_cache, srtt_us, most);
		rate = 2 * rate > wide ? 2 * rate : wide;
		break;
	case STEADY_SHARED:
		return steady_pace(window, tp->mss_cache, srtt_us, most);
	case STEADY_DRAIN:
		rate /= 2;
		break;
	case STEADY_MORE:
		rate += rate / 4;
		break;
	case STEADY_LESS:
	case STEADY_YIELD:
		rate -= rate / 8;
		break;
	}
	if (!rate)
		return steady_pace(window, tp->mss_cache, srtt_us, most);
	return rate < most ? rate : most;
}

#endif
