/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * The arithmetic of `steady`, without the kernel: it compiles as plain C too,
 * and crates/control/tests/arithmetic.rs asks it thousands of times what must
 * always hold. Windows count segments.
 */
#ifndef TRANSOM_STEADY_H
#define TRANSOM_STEADY_H

/* What 1 is, in shares (backoff) and in segments a round trip (gain). */
#define STEADY_ONE 1024

/* RFC 5681 section 3.1: the least window that still brings duplicate ACKs. */
#define STEADY_LEAST 2

/* RFC 6928: a window that may leave at once, without pacing and after an idle time. */
#define STEADY_BURST 10

/* RFC 8511 section 3: a marked path has a short queue and is given a fifth at least. */
#define STEADY_ECN_BACKOFF (STEADY_ONE / 5)

/* The pace, in fifths of a window a round trip: as the kernel's in congestion avoidance. */
#define STEADY_PACE_FIFTHS 6

#define STEADY_NO_RATE (~0ULL)

/* The kernel lets a millisecond of the pace leave at once: within it there is nothing to spread. */
#define STEADY_SPREAD_US 1000

/* RFC 9406 section 4.2: a round trip that is longer by an eighth, within these, has met a queue. */
#define STEADY_LEAST_QUEUE_US 4000
#define STEADY_MOST_QUEUE_US 16000

/* So many segments in a row must have met it: noise is shorter. An ACK counts as four at most. */
#define STEADY_QUEUED_SEGMENTS 16
#define STEADY_QUEUED_PER_ACK 4

struct steady_parameters {
	__u32 target;  /* window to start with; 0 = slow start instead */
	__u32 cap;     /* never above; 0 = none: it grows only while the path shows no queue */
	__u32 backoff; /* share given up at congestion, in 1024ths; 0 = none */
	__u32 gain;    /* segments a round trip in congestion avoidance, in 1024ths */
};

static inline __u32 steady_min(__u32 a, __u32 b)
{
	return a < b ? a : b;
}

static inline __u32 steady_max(__u32 a, __u32 b)
{
	return a > b ? a : b;
}

/* A window as it may be: the cap and the socket's own clamp hold, the least window too. */
static inline __u32 steady_within(__u32 window, __u32 cap, __u32 clamp)
{
	__u32 most = steady_min(cap ? cap : ~0U, clamp);

	return steady_max(steady_min(window, most), STEADY_LEAST);
}

/* The jump: up to the target at once, never down. */
static inline __u32 steady_start(__u32 window, __u32 target)
{
	return steady_max(window, target);
}

/* Congestion: the share that is given up, and at least a segment if it is not 0. */
static inline __u32 steady_backed_off(__u32 window, __u32 backoff)
{
	__u32 share = steady_min(backoff, STEADY_ONE);
	__u32 given_up = (__u64)window * share / STEADY_ONE;

	if (share && !given_up && window)
		given_up = 1;
	return steady_max(window - given_up, STEADY_LEAST);
}

/* A timeout that is believed (RFC 5681 equation 4). */
static inline __u32 steady_halved(__u32 window)
{
	return steady_max(window / 2, STEADY_LEAST);
}

/* Whether a segment of this round trip waited in a queue. */
static inline int steady_is_queued(__u32 rtt_us, __u32 min_rtt_us)
{
	__u32 least =
		steady_min(steady_max(min_rtt_us / 8, STEADY_LEAST_QUEUE_US), STEADY_MOST_QUEUE_US);

	return rtt_us > min_rtt_us && rtt_us - min_rtt_us >= least;
}

/* What the path holds without a queue: what it delivered in a time, for the least round trip. */
static inline __u32 steady_pipe(__u32 delivered, __u32 elapsed_us, __u32 min_rtt_us)
{
	__u64 pipe = (__u64)delivered * min_rtt_us / steady_max(elapsed_us, 1);

	return pipe > ~0U ? ~0U : steady_max(pipe, STEADY_LEAST);
}

/* Slow start (RFC 5681 section 3.1), which ends at the threshold. */
static inline __u32 steady_slow_start(__u32 window, __u32 acked, __u32 ssthresh)
{
	__u64 grown = (__u64)window + acked;

	return window >= ssthresh ? window : grown > ssthresh ? ssthresh : (__u32)grown;
}

/*
 * Congestion avoidance: `gain` segments for each window acknowledged. What is
 * not yet worth a segment stays in `credit`.
 */
static inline __u32 steady_grown(__u32 window, __u64 *credit, __u32 acked, __u32 gain)
{
	__u64 price = (__u64)steady_max(window, 1) * STEADY_ONE, segments;

	*credit += (__u64)acked * gain;
	segments = *credit / price;
	*credit -= segments * price;
	return segments > ~0U - window ? ~0U : window + (__u32)segments;
}

/* After an idle time nothing vouches for more than the start. */
static inline __u32 steady_after_idle(__u32 window, __u32 target)
{
	return steady_min(window, steady_max(target, STEADY_BURST));
}

/* Bytes a second that spread a window over a round trip, never above `most`. */
static inline __u64 steady_pace(__u32 window, __u32 mss, __u32 srtt_us, __u64 most)
{
	__u64 bytes = (__u64)window * (mss & 0xffff) / 5, factor = STEADY_PACE_FIFTHS * 1000000ULL;
	__u64 rate;

	if (srtt_us < STEADY_SPREAD_US)
		return most;
	if (bytes <= STEADY_NO_RATE / factor)
		rate = bytes * factor / srtt_us;
	else if (bytes / srtt_us <= STEADY_NO_RATE / factor)
		rate = bytes / srtt_us * factor;
	else
		rate = STEADY_NO_RATE;
	return rate < most ? rate : most;
}

#endif
