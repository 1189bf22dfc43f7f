/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/* What `steady` keeps of a connection (icsk_ca_priv). */
#ifndef TRANSOM_STEADY_FLOW_H
#define TRANSOM_STEADY_FLOW_H

/* Without a target (steady_path.h). */
enum steady_phase {
	STEADY_START,  /* the window doubles each round trip, until the rate grows no more */
	STEADY_DRAIN,  /* until what slow start has queued is gone */
	STEADY_CRUISE, /* at the path's rate */
	STEADY_MORE,   /* a quarter more, to see whether the rate grows */
	STEADY_LESS,   /* a quarter less, to see whether the queue goes */
	STEADY_SHARED, /* others hold the queue: CUBIC's window */
	STEADY_YIELD,  /* half a pipe, to see whether they still do */
};

struct steady_path {
	__u32 rate[2];	 /* the largest of this measurement, and of the one before */
	__u32 rtt_us[2]; /* the least of these 10 s, and of those before */
	__u32 rtt_since; /* when these 10 s began, µs */
	__u32 round;	 /* when this round trip began, µs */
	__u32 lost;	 /* tcp_sock.lost when it did */
	__u32 least_us;	 /* least round trip of this phase; SHARED: of this round trip */
	union {
		__u32 full;    /* the rate that START and MORE are to exceed */
		__u32 reduced; /* SHARED: when the window was reduced last, µs */
	};
	union {
		__u32 ceiling; /* what may be in flight, since more met a full queue; 0 = no limit */
		__u32 time_ms; /* SHARED: K of RFC 9438 */
	};
	__u8 phase;
	__u8 rounds;	  /* of this phase; SHARED: in a row without a queue */
	__u8 rate_rounds; /* of this measurement */
	__u8 growing;	  /* SHARED: the queue has grown in the last round trip */
	__u32 last_us;	  /* SHARED: least round trip of the last one */
};

struct steady_flow {
	__u64 credit;		/* see steady_grown */
	__u32 delivered;	/* tcp_sock.delivered at the last ACK */
	__u32 delivered_ce;	/* tcp_sock.delivered_ce at the last ACK */
	__u32 before;		/* the window before congestion, for undo and for halving */
	__u32 jumped_to;	/* the target we last jumped to */
	__u32 marked_to;	/* end of the window in which congestion was answered, while … */
	__u8 marked : 1;	/* … it was */
	__u8 rested : 1;	/* in this round trip there was nothing to send for a while */
	__u8 pacing_status : 2; /* before us */
	__u8 timeouts : 2;	/* in a row, 3 at most */
	__u8 lossy;		/* round trips of much loss, see steady_path.h */
	__u16 loss; /* share of segments lost, mean of about eight round trips, in 2^-16 */
	union {
		struct steady_path path; /* without a target */
		struct {
			__u32 fall_to; /* window to take at the next ACK; 0 = none */
			__u32 ceiling; /* largest window at which the path showed no queue */
		};
	};
};

#endif
