/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * The few kernel types and fields we read. Each access is relocated (CO-RE)
 * against the running kernel's BTF, so only names matter here, not offsets.
 */
#ifndef TRANSOM_KERNEL_H
#define TRANSOM_KERNEL_H

/* Stands in for vmlinux.h: libbpf's headers then use the kernel's names of registers. */
#define __VMLINUX_H__

typedef signed char __s8;
typedef unsigned char __u8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s64 s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef int bool;
#define true 1
#define false 0
#define NULL ((void *)0)

#define AF_INET 2
#define AF_INET6 10
#define IPPROTO_TCP 6
#define IPPROTO_MPTCP 262

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
};
enum { CA_EVENT_TX_START = 0 };
enum { SK_PACING_NONE, SK_PACING_NEEDED };
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum { BPF_F_NO_PREALLOC = 1, BPF_F_CLONE = 1 << 9, BPF_F_MMAPABLE = 1 << 10 };
enum { BPF_SK_STORAGE_GET_F_CREATE = 1 };
enum { BPF_RB_NO_WAKEUP = 1, BPF_RB_FORCE_WAKEUP = 2 };
enum { BPF_RB_AVAIL_DATA = 0 };

enum {
	TCP_ESTABLISHED = 1,
	TCP_SYN_SENT = 2,
	TCP_SYN_RECV = 3,
	TCP_TIME_WAIT = 6,
	TCP_CLOSE = 7,
	TCP_CLOSE_WAIT = 8,
	TCP_LISTEN = 10,
};
enum { TCP_CA_Open, TCP_CA_Disorder, TCP_CA_CWR, TCP_CA_Recovery, TCP_CA_Loss };
enum { PF_KTHREAD = 0x00200000 }; /* a bit of task_struct.flags (linux/sched.h) */
enum { SOCK_NOSPACE = 2 };	  /* a bit of socket.flags (linux/net.h) */
enum { ICSK_TIME_RETRANS = 1, ICSK_TIME_LOSS_PROBE = 5 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr {
	union {
		__u8 u6_addr8[16];
		__be32 u6_addr32[4];
	} in6_u;
};

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	__s64 counter;
} atomic64_t;

struct kernfs_node {
	u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
	int level;
	struct cgroup *ancestors[];
};

struct sock_cgroup_data {
	struct cgroup *cgroup;
};

struct net_device {
	int ifindex;
};

struct dst_entry {
	struct net_device *dev;
};

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	int skc_bound_dev_if;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	atomic64_t skc_cookie;
};

struct socket;

typedef struct {
	int owned; /* by a process; what softirqs receive meanwhile waits in the backlog */
} socket_lock_t;

struct sock {
	struct sock_common __sk_common;
	socket_lock_t sk_lock;
	struct {
		atomic_t rmem_alloc;
		int len;
	} sk_backlog;
	int sk_err;
	int sk_wmem_queued;
	int sk_sndbuf;
	int sk_rcvbuf;
	struct socket *sk_socket;
	u32 sk_pacing_status;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	u16 sk_protocol;
	struct dst_entry *sk_dst_cache;
	struct sock_cgroup_data sk_cgrp_data;
};

struct inet_sock {
	struct sock sk;
	__be16 inet_sport;
};

struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *sk);
	void (*set_state)(struct sock *sk, u8 new_state);
	void (*cwnd_event)(struct sock *sk, int event);
	void (*cwnd_event_tx_start)(struct sock *sk);
	void (*in_ack_event)(struct sock *sk, u32 flags);
	void (*cong_control)(struct sock *sk);
	u32 (*undo_cwnd)(struct sock *sk);
	u32 (*sndbuf_expand)(struct sock *sk);
	char name[16];
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	__u32 icsk_rto;
	const struct tcp_congestion_ops *icsk_ca_ops;
	__u8 icsk_ca_state : 5;
	__u8 icsk_retransmits;
	__u8 icsk_pending;
	__u8 icsk_backoff;
	void *icsk_ulp_data;
	u64 icsk_ca_priv[13];
};

struct tcp_options_received {
	u16 snd_wscale : 4;
	u16 rcv_wscale : 4;
};

struct minmax_sample {
	u32 t;
	u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_rack {
	u32 rtt_us;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u64 tcp_mstamp;
	struct tcp_rack rack;
	u32 snd_wnd;
	u32 mss_cache;
	u32 snd_cwnd;
	u32 snd_ssthresh;
	u32 snd_cwnd_clamp;
	u32 lost_out;
	u32 sacked_out;
	u32 retrans_out;
	u32 packets_out;
	u32 rcv_nxt;
	u32 rcv_wnd;
	u32 snd_nxt;
	u32 snd_una;
	u32 write_seq;
	u32 srtt_us;
	u32 mdev_us;
	struct minmax rtt_min;
	u32 delivered;
	u32 delivered_ce;
	u32 lost;
	u32 lsndtime;
	u32 segs_in;
	u32 segs_out;
	u32 data_segs_in;
	u32 data_segs_out;
	u64 bytes_sent;
	u64 bytes_acked;
	u64 bytes_received;
	u64 bytes_retrans;
	u32 total_retrans;
	u16 total_rto;
	u32 dsack_dups;
	u32 reord_seen;
	u32 rcv_ooopack;
	u32 max_window;
	u32 window_clamp;
	u8 scaling_ratio;
	u32 chrono_start;
	u32 chrono_stat[3];
	u32 app_limited;
	u32 rate_delivered;
	u32 rate_interval_us;
	struct tcp_options_received rx_opt;
	u8 is_cwnd_limited : 1;
	u8 is_sack_reneg : 1;
	u8 chrono_type : 2;
	u8 ecn_flags;
	u32 tlp_high_seq;
	u8 is_mptcp;
	void *fastopen_rsk;
};

struct mptcp_subflow_context {
	struct sock *conn;
};

struct mptcp_sock {
	u32 token;
	struct sock *first; /* its subflow that was there first */
};

struct tcphdr {
	__be16 source;
	__be16 dest;
	__be32 seq;
	__be32 ack_seq;
	__u16 flags;
	__be16 window;
};

struct sk_buff {
	struct sock *sk;
	unsigned int len;
	unsigned char *head;
	unsigned char *data;
	unsigned int end;
	__u16 transport_header;
	__u16 mac_header;
	int skb_iif;
	u64 tstamp;
};

struct sk_buff___cb {
	char cb[48];
};

/* A TCP header, for which fields and bits do not matter. */
union tcp_word_hdr {
	__be32 words[5];
};

/* What TCP keeps in sk_buff.cb of a segment. */
struct tcp_skb_cb {
	__u32 ack_seq;
};

struct skb_shared_info {
	unsigned short gso_segs;
};

struct pid_namespace {
	struct ns_common ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct signal_struct {
	atomic_t live; /* threads that have not begun to exit */
};

struct task_struct {
	struct signal_struct *signal;
	unsigned int flags;
	int pid;
	int tgid;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	char comm[16];
};

struct socket {
	unsigned long flags;
	struct sock *sk;
};

struct file {
	void *private_data;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
	u64 session_id;
	u64 seq_num;
};

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
	unsigned int uid;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	u32 fd;
	struct file *file;
};

struct bpf_map;

struct bpf_iter__bpf_map_elem {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	void *key;
	void *value;
};

struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	struct sock *sk;
	void *value;
};

/* Registers, for kprobes: x86-64 and arm64. */
struct pt_regs {
	unsigned long di;
	unsigned long sp;
	unsigned long ax;
};

struct user_pt_regs {
	u64 regs[31];
	u64 sp;
};

#pragma clang attribute pop

#endif
