/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * What the agent's programs and its user space share (crates/agent/src/raw.rs):
 * one record per connection, written when it ends, and in between while bytes move.
 */
#ifndef TRANSOM_AGENT_H
#define TRANSOM_AGENT_H

#include "kernel.h"

/* RTT samples by size: two buckets per doubling, the first up to 64 us, the last from 1.9 s. */
#define TX_RTT_BUCKETS 32
#define TX_RTT_FIRST_SHIFT 6

/* Where the kernel ring's readers are woken: this part of it is full. */
#define TX_AGENT_RING (4 << 20)

enum tx_row_kind {
	TX_ROW_END = 1,	 /* the connection has ended */
	TX_ROW_INTERIM,	 /* it goes on */
	TX_ROW_FAILED,	 /* it was never established */
	TX_ROW_DECISION, /* a rare decision of the kernel: struct tx_decision */
	TX_ROW_RECENT,	 /* what led to the next record of this connection: struct tx_recents */
	TX_ROW_SNAPSHOT, /* as interim, for user space to look at and not to keep */
};

enum tx_row_origin { TX_FROM_BEFORE, TX_BY_CONNECT, TX_BY_ACCEPT };

enum tx_row_flag {
	TX_RESET_RECEIVED = 1,
	TX_CAUSES_KNOWN = 2,   /* retransmissions were counted by cause from the beginning */
	TX_FROM_SOCK_DIAG = 4, /* written by user space, which cannot say how it ended */
	TX_LEVEL_CHANGED = 8,  /* while it lived: its details have a gap */
};

/* Counters are those of the whole connection, also of its time before the agent. */
struct tx_row {
	__u8 kind;
	__u8 origin;
	__u8 flags;
	__u8 family;
	__u8 state; /* the one that it left */
	__u8 ca_state;
	__u16 error; /* sk_err, an errno */
	__u32 tgid;
	__u8 chosen; /* tx_choice */
	__u8 syn_retransmitted;
	__u8 syn_timeouts; /* of `timeouts`: before it was established */
	__u8 reserved2;
	__u64 time_ns; /* CLOCK_BOOTTIME */
	__u64 cookie;
	__u64 begun_ns;	      /* 0 = before the agent */
	__u64 established_ns; /* 0 = never, or before the agent */
	__u64 cgroup;
	__u64 bytes_sent;
	__u64 bytes_acked;
	__u64 bytes_received;
	__u64 bytes_retrans;
	__u32 netns;
	__u32 ifindex;
	__u32 mptcp;
	__u16 local_port;
	__u16 remote_port;
	__u8 local_addr[16];
	__u8 remote_addr[16];
	char comm[16];
	char algorithm[16];
	__u32 segs_out;
	__u32 segs_in;
	__u32 data_segs_out;
	__u32 data_segs_in;
	__u32 retransmitted;
	__u32 by_recovery;
	__u32 by_timeout;
	__u32 by_probe;
	__u32 timeouts;
	__u32 dsack_dups;
	__u32 reord_seen;
	__u32 rcv_ooopack;
	__u32 delivered;
	__u32 delivered_ce;
	__u32 busy; /* jiffies, tcp_sock.chrono_stat; rwnd and sndbuf are parts of it */
	__u32 rwnd;
	__u32 sndbuf;
	__u32 srtt_us;
	__u32 mdev_us;
	__u32 min_rtt_us;
	__u32 cwnd;
	__u32 cwnd_max;
	__u32 ssthresh;
	__u32 max_window;
	__u32 mss;
	__u32 unsent;
	__u8 rtt[TX_RTT_BUCKETS];
};

enum tx_decision_kind {
	TX_DECIDED_STATE = 1, /* ca_state: before, now */
	TX_DECIDED_PROBE,     /* tail loss probe */
	TX_DECIDED_RESET,     /* received */
	TX_DECIDED_TIMEOUT,   /* value: which one in a row */
	TX_DECIDED_SYN,	      /* SYN retransmitted; value: how often so far */
	TX_DECIDED_LOCAL,     /* this machine's own queue or device refused a segment */
	TX_DECIDED_WINDOW,    /* TCP_WINDOW_CLAMP; value: bytes */
	TX_DECIDED_CLAMP,     /* of the congestion window; value: segments */
	TX_DECIDED_ALGORITHM, /* of congestion control; algorithm: from now on */
	TX_DECIDED_RESET_SENT,
	TX_DECIDED_TUNED, /* by transom; value: tx_reason */
};

/* A rare decision; 80 bytes. */
struct tx_decision {
	__u8 kind; /* TX_ROW_DECISION */
	__u8 decision;
	__u8 before;
	__u8 now;
	__u32 tgid;
	__u64 time_ns;
	__u64 cookie;
	__u32 cwnd;
	__u32 ssthresh;
	__u32 packets_out;
	__u32 sacked_out;
	__u32 lost_out;
	__u32 retransmitted;
	__u32 srtt_us;
	__u32 rto; /* jiffies */
	__u16 local_port;
	__u16 remote_port;
	__u32 value; /* by decision */
	char algorithm[16];
};

/* So many decisions of each connection are kept in the socket's own storage. */
#define TX_RECENT 16
/* Of at most this part of the connections at a time; the others' are on disk like all. */
#define TX_RECENT_SHARE 16
/* Bits of time_ns that `time` leaves out: its unit is 1.05 ms, and it wraps after 52 days. */
#define TX_RECENT_SHIFT 20

struct tx_recent {
	__u32 time;
	__u8 decision;
	__u8 states; /* before, and now << 4 */
	__u16 value; /* as that of tx_decision, at most 65,535; of `state` the window before */
};

struct tx_recents {
	__u8 kind; /* TX_ROW_RECENT */
	__u8 reserved[3];
	__u32 number; /* so many so far: the last 16 are here, from number % 16 on */
	__u64 cookie;
	struct tx_recent last[TX_RECENT];
};

/* What user space tells the programs. */
struct tx_agent_orders {
	__u64 interim_ns; /* between two rows of a connection that goes on */
	__u32 most;	  /* connections that are remembered */
	__u32 causes;	  /* whether retransmissions are counted by cause (level 1) */
	__u32 generation; /* changes with the level */
	__u32 recount;	  /* the one that goes on, or was the last; 0: there was none yet */
	__u32 roll_call;  /* whether the recount says whom it finds */
	__u32 reserved;
};

/* Why a connection is recorded (level 2). */
enum tx_choice {
	TX_CHOSEN_BY_SAMPLE = 1,
	TX_CHOSEN_BY_WATCH,	    /* it is on the list */
	TX_CHOSEN_BY_TIMEOUTS,	    /* of the retransmission timer */
	TX_CHOSEN_BY_RETRANSMITTED, /* a share of its segments */
	TX_CHOSEN_BY_HANDSHAKE,	    /* a slow one */
	TX_CHOSEN_BY_PEER,	    /* limited by the window of the peer */
	TX_CHOSEN_BY_DEVICE,	    /* refusals by this machine's own queue or device */
	TX_CHOSEN_BY_CONDITION,	    /* of the configuration */
};

/*
 * An entry of the watch list. Masks and factors of 0 are for what it does not say, so that it takes
 * no branches: the verifier would follow them for each entry.
 */
struct tx_watch {
	__u64 cgroup;
	__u64 comm[2];
	__u64 comm_mask;
	__u64 address[2]; /* of the peer */
	__u64 address_mask[2];
	__u16 port; /* of either end */
	__u16 port_counts;
	__u16 family;
	__u16 family_counts;
};

#define TX_WATCHES 16

/* Which connections are recorded (level 2); 0 switches a reason off. */
struct tx_agent_choice {
	__u64 sample_below; /* of the numbers of connections */
	__u64 sample_key[2];
	__u64 handshake_ns; /* longer */
	__u32 on;
	__u32 most;		 /* at a time */
	__u32 timeouts;		 /* as many */
	__u32 refusals;		 /* as many */
	__u32 retransmitted_ppm; /* more, of the data segments */
	__u32 peer_limited_ppm;	 /* more, of the busy time */
	__u32 least_busy;	 /* jiffies before that share says something */
	__u32 snapshots;	 /* user space evaluates a condition */
	__u32 watches;
	__u32 reserved;
	struct tx_watch watch[TX_WATCHES];
};

/* What the programs count. What is now is counted anew after each look, since a program may be skipped. */
enum tx_agent_count {
	TX_AGENT_TRACKED,   /* remembered now */
	TX_AGENT_UNTRACKED, /* not remembered: too many, or no memory */
	TX_AGENT_LOST_ROWS,
	TX_AGENT_LOST_DECISIONS,
	TX_AGENT_RECENT, /* connections whose last decisions are kept now */
	TX_AGENT_CHOSEN, /* recorded now (level 2) */
	TX_AGENT_CHOSEN_SO_FAR,
	TX_AGENT_NOT_CHOSEN, /* for want of room; each once */
	TX_AGENT_COUNTS,
};

#endif
