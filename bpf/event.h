/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * The one contract between the kernel side and user space: a record of 128
 * bytes, little-endian, `tx_head` and then one of three bodies, chosen by kind.
 * crates/event/src/raw.rs is the same layout in Rust; a test compares both.
 */
#ifndef TRANSOM_EVENT_H
#define TRANSOM_EVENT_H

enum tx_kind {
	TX_OPEN = 1,   /* body open;  aux: tx_origin, see TX_WSCALE_KNOWN */
	TX_CLOSE,      /* body state; aux: errno of the socket, 0 */
	TX_STATE,      /* body state; aux: old TCP state, new TCP state */
	TX_ACK,	       /* body state; aux: bytes newly acknowledged, cwnd before */
	TX_SEND,       /* body state; aux: payload bytes, segments */
	TX_RETRANSMIT, /* body state; aux: tx_retransmit_reason | segments << 8, sequence number */
	TX_DUP_ACK,    /* body state; aux: how many in a row, 1 if it carried SACK blocks */
	TX_SACK,       /* body sack;  aux: number of blocks, 1 if the first is a D-SACK */
	TX_RTO,	       /* body state; aux: timeouts in a row including this one, tx_rto_cause */
	TX_LOCAL_CONGESTION, /* body state; aux: drop reason or xmit return code (0 = not told), bytes (same) */
	TX_CA_STATE,	/* body state; aux: old, new */
	TX_RESET,	/* body state; aux: tx_direction, sk_rst_reason (0 = not told) */
	TX_ZERO_WINDOW, /* body state; aux: tx_direction, 0 */
	TX_ALGORITHM,	/* body open;  aux: 0, 0 */
	TX_CLAMP,	/* body state; aux: old, new */
	TX_ACTION, /* body state; aux: tx_reason | rule << 8 | tx_algorithm << 16 | initial window << 24, cap */
	TX_LOST,   /* no body;    aux: tx_loss, how many */
	TX_OWNER,  /* body open;  aux: old tgid, 0 */
	TX_SAMPLE, /* body state; aux: 0, 0 (polled, not an event of the kernel) */
	TX_KINDS,
};

/* The kernel function that was running; the probe that saw it depends on the tier. */
enum tx_where {
	TX_AT_ITERATOR = 1,	/* iter/tcp: existed before we came */
	TX_AT_SET_STATE,	/* tcp_set_state */
	TX_AT_RCV_ESTABLISHED,	/* tcp_rcv_established */
	TX_AT_ACK,		/* tcp_ack */
	TX_AT_DEV_QUEUE,	/* __dev_queue_xmit */
	TX_AT_RETRANSMIT_SKB,	/* __tcp_retransmit_skb */
	TX_AT_SET_CA_STATE,	/* tcp_set_ca_state */
	TX_AT_ENTER_LOSS,	/* tcp_enter_loss */
	TX_AT_ENTER_CWR,	/* tcp_enter_cwr */
	TX_AT_QDISC_DROP,	/* kfree_skb with a queueing-discipline reason */
	TX_AT_SEND_RESET = 12,	/* tcp_v4_send_reset, tcp_v6_send_reset, tcp_send_active_reset */
	TX_AT_RESET,		/* tcp_reset */
	TX_AT_SENDMSG,		/* sock_sendmsg */
	TX_AT_RECVMSG,		/* sock_recvmsg */
	TX_AT_RCV_SPACE_ADJUST, /* tcp_rcv_space_adjust */
	TX_AT_SOCK_DIAG,	/* sock_diag: polled */
	TX_AT_TASK_FILE,	/* iter/task_file: who holds the socket */
	TX_AT_RECORDER,		/* our own program, in user space */
	TX_PLACES,
};

enum tx_origin { TX_CONNECT = 1, TX_ACCEPT, TX_EXISTING };
enum tx_direction { TX_SENT = 1, TX_RECEIVED };
enum tx_retransmit_reason {
	TX_RETRANS_FAST = 1,
	TX_RETRANS_RTO,
	TX_RETRANS_SLOW_START,
	TX_RETRANS_TLP,
	TX_RETRANS_SYN
};
enum tx_rto_cause { TX_RTO_TIMER = 1, TX_RTO_RENEGING, TX_RTO_PMTU };

/* Why an event could not be recorded; index of the `losses` map. */
enum tx_loss {
	TX_LOSS_RING = 1,    /* the ring was full */
	TX_LOSS_STORAGE,     /* no memory for the per-connection state */
	TX_LOSS_RECURSION,   /* the kernel refused to run a probe inside itself */
	TX_LOSS_SEGMENT,     /* a segment header could not be read */
	TX_LOSS_UNSEEN_SEND, /* new data left without our probe; counted in segments */
	TX_LOSSES,
};

/* tx_state.flags */
#define TX_CWND_LIMITED 0x01  /* tcp_sock.is_cwnd_limited */
#define TX_APP_LIMITED 0x02   /* tcp_sock.app_limited != 0 */
#define TX_CHRONO_SHIFT 2     /* two bits, tcp_sock.chrono_type: 1 busy, 2 rwnd, 3 sndbuf */
#define TX_AFTER 0x10	      /* the state is the one after the kernel's function ran */
#define TX_PACED 0x20	      /* sk_pacing_status != SK_PACING_NONE */
#define TX_IN_SLOW_START 0x40 /* cwnd < ssthresh */
#define TX_ECN 0x80	      /* ECN was negotiated */

/* tx_state.send_buffer: the program was refused more of the send buffer (SOCK_NOSPACE) */
#define TX_WRITE_BLOCKED 0x8000

/*
 * aux[1] of TX_OPEN: the shift counts of RFC 7323, of the windows that the other
 * side offers (bits 0-3) and of those offered here (4-7), if the handshake is over.
 * In the bits above: how many bytes had been acknowledged (TX_CONNECT) or received
 * (TX_ACCEPT) before, as what a SYN carries (RFC 7413).
 */
#define TX_WSCALE_KNOWN 0x100
#define TX_EARLY_SHIFT 9

struct tx_head {
	__u64 time_ns; /* CLOCK_BOOTTIME */
	__u64 cookie;  /* socket cookie: which connection, as long as the machine is up */
	__u32 tgid;    /* process that last touched the socket; 0 = not known */
	__u16 cpu;
	__u8 kind;
	__u8 where;
	__u32 aux[2];
};

struct tx_state {
	__u32 cwnd;	/* segments */
	__u32 ssthresh; /* segments; 2147483647 = not set */
	__u32 clamp;	/* segments; 4294967295 = not set */
	__u32 snd_una;	/* sequence numbers */
	__u32 snd_nxt;
	__u32 rcv_nxt;
	__u32 snd_wnd;	   /* bytes */
	__u32 rcv_wnd;	   /* bytes */
	__u32 packets_out; /* segments */
	__u32 sacked_out;
	__u32 lost_out;
	__u32 retrans_out;
	__u32 rto_us;
	__u32 srtt_us;
	__u32 mdev_us;	   /* mean deviation of the RTT, as in TCP_INFO */
	__u32 min_rtt_us;  /* 4294967295 = not measured */
	__u32 send_queue;  /* bytes of memory, sk_wmem_queued */
	__u32 recv_queue;  /* bytes of memory, sk_backlog.rmem_alloc */
	__u32 unsent;	   /* bytes written by the program, not yet sent */
	__u32 delivered;   /* segments */
	__u64 pacing_rate; /* bytes/s; ~0 = not limited */
	__u16 mss;	   /* bytes */
	__u8 ca_state;
	__u8 tcp_state;
	__u8 flags;
	__u8 backoff;	   /* icsk_backoff */
	__u16 send_buffer; /* KiB, sk_sndbuf, at most 32767; 0 = not recorded; TX_WRITE_BLOCKED */
};

struct tx_open {
	__u8 local_addr[16]; /* IPv4 in the first four bytes */
	__u8 remote_addr[16];
	__u16 local_port; /* host byte order */
	__u16 remote_port;
	__u32 netns;   /* inode number */
	__u32 ifindex; /* of the route, 0 = not known */
	__u16 family;  /* AF_INET, AF_INET6 */
	__u16 reserved;
	__u64 cgroup;	    /* cgroup v2 id */
	char comm[16];	    /* program name of the owner */
	char algorithm[16]; /* congestion control */
	__u32 mptcp;	    /* token of the MPTCP connection it is part of (RFC 8684), or 0 */
	__u32 reserved2;
};

struct tx_sack {
	__u32 blocks[4][2]; /* left edge, right edge; `aux[0]` of them */
	__u32 cwnd;
	__u32 ssthresh;
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 packets_out;
	__u32 sacked_out;
	__u32 lost_out;
	__u32 retrans_out;
	__u8 ca_state;
	__u8 tcp_state;
	__u16 reserved;
	__u32 reserved2[7];
};

struct tx_event {
	struct tx_head head;
	union {
		struct tx_state state;
		struct tx_open open;
		struct tx_sack sack;
	};
};

_Static_assert(sizeof(struct tx_head) == 32, "head");
_Static_assert(sizeof(struct tx_state) == 96, "state");
_Static_assert(sizeof(struct tx_open) == 96, "open");
_Static_assert(sizeof(struct tx_sack) == 96, "sack");

#endif
