// SPDX-License-Identifier: GPL-2.0
/*
 * `steady` in C: what bpf/steady.bpf.c is for a kernel of its own, from the
 * same source (bpf/steady_control.h) and with the parameters as sysctls of all
 * sockets: net.ipv4.tcp_steady_target, _cap (segments), _backoff and _gain
 * (1024ths).
 */
#include <linux/init.h>
#include <linux/sysctl.h>
#include <library/series.h>
#include <net/net_namespace.h>
#include <net/tcp.h>

static inline bool steady_is_limited(const struct tcp_sock *tp)
{
	return tp->is_cwnd_limited;
}

static inline u8 steady_ca_state(const struct tcp_sock *tp)
{
	return tp->inet_conn.icsk_ca_state;
}

static inline u32 steady_jiffies(void)
{
	return tcp_jiffies32;
}

#include "steady_control.h"

static struct steady_parameters parameters = STEADY_DEFAULTS;

static void steady_init(struct sock *sk)
{
	steady_note(tcp_sk(sk), inet_csk_ca(sk));
	steady_begin(tcp_sk(sk), inet_csk_ca(sk), &parameters);
}

static void steady_release(struct sock *sk)
{
	steady_end(tcp_sk(sk), inet_csk_ca(sk));
}

static u32 steady_ssthresh(struct sock *sk)
{
	return steady_on_congestion(tcp_sk(sk), inet_csk_ca(sk), &parameters);
}

static void steady_set_state(struct sock *sk, u8 state)
{
	steady_on_state(tcp_sk(sk), inet_csk_ca(sk), state);
}

static void steady_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_TX_START && steady_was_idle(tcp_sk(sk)))
		steady_after_rest(tcp_sk(sk), &parameters);
}

static void steady_cong_control(SERIES_CONG_CONTROL)
{
	steady_on_ack(tcp_sk(sk), inet_csk_ca(sk), &parameters);
}

static u32 steady_undo_cwnd(struct sock *sk)
{
	return steady_undone(tcp_sk(sk), inet_csk_ca(sk), &parameters);
}

static struct tcp_congestion_ops steady = {
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "steady",
	.owner = THIS_MODULE,
	.init = steady_init,
	.release = steady_release,
	.ssthresh = steady_ssthresh,
	.set_state = steady_set_state,
	.cwnd_event = steady_cwnd_event,
	.cong_control = steady_cong_control,
	.undo_cwnd = steady_undo_cwnd,
};

static struct ctl_table steady_table[] = {
	{.procname = "tcp_steady_target",
	 .data = &parameters.target,
	 .maxlen = sizeof(u32),
	 .mode = 0644,
	 .proc_handler = proc_douintvec},
	{.procname = "tcp_steady_cap",
	 .data = &parameters.cap,
	 .maxlen = sizeof(u32),
	 .mode = 0644,
	 .proc_handler = proc_douintvec},
	{.procname = "tcp_steady_backoff",
	 .data = &parameters.backoff,
	 .maxlen = sizeof(u32),
	 .mode = 0644,
	 .proc_handler = proc_douintvec},
	{.procname = "tcp_steady_gain",
	 .data = &parameters.gain,
	 .maxlen = sizeof(u32),
	 .mode = 0644,
	 .proc_handler = proc_douintvec},
	SERIES_TABLE_END};

static int __init register_steady(void)
{
	BUILD_BUG_ON(sizeof(struct steady_flow) > ICSK_CA_PRIV_SIZE);
	register_net_sysctl(&init_net, "net/ipv4", steady_table);
	return tcp_register_congestion_control(&steady);
}
late_initcall(register_steady);
