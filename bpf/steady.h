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

/* Rates are segments a microsecond, in 2^-24. */
#define STEADY_RATE_SHIFT 24

/* RFC 9438 section 4.1: the share of a window that stays, and C, in 1024ths … */
#define STEADY_CUBIC_BETA 717
#define STEADY_CUBIC_C 410
/* … and section 4.3: what it grows by a round trip at least, 3 (1 - beta) / (1 + beta). */
#define STEADY_CUBIC_GAIN 542

struct steady_parameters {
	__u32 target;  /* window to start with; 0 = what the path is found to hold */
	__u32 cap;     /* never above; 0 = none */
	__u32 backoff; /* share given up at congestion, in 1024ths; 0 = none */
	__u32 gain; /* segments a round trip in congestion avoidance, in 1024ths; with a target */
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

/* Segments in a time as a rate. */
static inline __u32 steady_rate(__u32 segments, __u32 us)
{
	__u64 rate = ((__u64)segments << STEADY_RATE_SHIFT) / steady_max(us, 1);

	return rate > ~0U ? ~0U : (__u32)rate;
}

/* What a path of this rate holds without a queue, for the least round trip; rounded up. */
static inline __u32 steady_pipe(__u32 rate, __u32 min_rtt_us)
{
	__u64 pipe = ((__u64)rate * min_rtt_us >> STEADY_RATE_SHIFT) + 1;

	return pipe > ~0U ? ~0U : (__u32)pipe;
}

/* Bytes a second of a rate. */
static inline __u64 steady_bytes(__u32 rate, __u32 mss)
{
	return ((__u64)rate * (mss & 0xffff) * 15625 >> STEADY_RATE_SHIFT) * 64;
}

static inline __u32 steady_cube_root(__u64 of)
{
	__u32 root = 0;
	int bit;

	for (bit = 20; bit >= 0; bit--) {
		__u64 more = root | 1U << bit;

		if (more * more * more <= of)
			root = more;
	}
	return root;
}

/* RFC 9438 equation 2: ms from a reduction to `window` until W_max is met again. */
static inline __u32 steady_cubic_time(__u32 window, __u32 w_max)
{
	__u64 missing = w_max > window ? w_max - window : 0;

	/* A window above this would take an hour. */
	if (missing > 1 << 24)
		missing = 1 << 24;
	return steady_cube_root(missing * 1000000000ULL / STEADY_CUBIC_C * STEADY_ONE);
}

/* RFC 9438 equation 1: the window `ms` after a reduction. */
static inline __u32 steady_cubic(__u32 ms, __u32 k_ms, __u32 w_max)
{
	__u64 away = ms > k_ms ? ms - k_ms : k_ms - ms, change;

	if (away > 1 << 18)
		away = 1 << 18;
	change = away * away * away / 1000000 * STEADY_CUBIC_C / STEADY_ONE / 1000;
	if (ms > k_ms)
		return change > ~0U - w_max ? ~0U : w_max + (__u32)change;
	return change >= w_max ? 0 : w_max - (__u32)change;
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
