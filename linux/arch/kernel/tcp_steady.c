// SPDX-License-Identifier: GPL-2.0
/*
 * `steady` in C: what bpf/steady.bpf.c is for a kernel of its own, from the
 * same source (bpf/steady_control.h) and with the parameters as sysctls of each
 * host: net.ipv4.tcp_steady_target, _cap (segments), _backoff and _gain
 * (1024ths).
 */
#include <linux/init.h>
#include <linux/slab.h>
#include <linux/sysctl.h>
#include <library/series.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>
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

struct steady_host {
	struct steady_parameters parameters;
	struct ctl_table_header *sysctls;
};

static unsigned int steady_host_id;

static const struct steady_parameters *parameters_of(const struct sock *sk)
{
	return &((struct steady_host *)net_generic(sock_net(sk), steady_host_id))->parameters;
}

static void steady_init(struct sock *sk)
{
	steady_note(tcp_sk(sk), inet_csk_ca(sk));
	steady_begin(tcp_sk(sk), inet_csk_ca(sk), parameters_of(sk));
}

static void steady_release(struct sock *sk)
{
	steady_end(tcp_sk(sk), inet_csk_ca(sk));
}

static u32 steady_ssthresh(struct sock *sk)
{
	return steady_on_congestion(tcp_sk(sk), inet_csk_ca(sk), parameters_of(sk));
}

static void steady_set_state(struct sock *sk, u8 state)
{
	steady_on_state(tcp_sk(sk), inet_csk_ca(sk), state, parameters_of(sk));
}

static void steady_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_TX_START && steady_was_idle(tcp_sk(sk)))
		steady_after_rest(tcp_sk(sk), inet_csk_ca(sk), parameters_of(sk));
}

static void steady_cong_control(SERIES_CONG_CONTROL)
{
	steady_on_ack(tcp_sk(sk), inet_csk_ca(sk), parameters_of(sk));
}

static u32 steady_sndbuf_expand(struct sock *sk)
{
	return STEADY_SEND_BUFFER;
}

static u32 steady_undo_cwnd(struct sock *sk)
{
	return steady_undone(tcp_sk(sk), inet_csk_ca(sk), parameters_of(sk));
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
	.sndbuf_expand = steady_sndbuf_expand,
};

#define STEADY_SYSCTL(field)                                                                       \
	{                                                                                          \
		.procname = "tcp_steady_" #field,                                                  \
		.data = (void *)offsetof(struct steady_host, parameters.field),                    \
		.maxlen = sizeof(u32),                                                             \
		.mode = 0644,                                                                      \
		.proc_handler = proc_douintvec,                                                    \
	}

/* `data` is an offset until a host has a copy of its own. */
static const struct ctl_table steady_table[] = {
	STEADY_SYSCTL(target),
	STEADY_SYSCTL(cap),
	STEADY_SYSCTL(backoff),
	STEADY_SYSCTL(gain) SERIES_TABLE_END,
};

static int __net_init begin_host(struct net *net)
{
	struct steady_host *steady = net_generic(net, steady_host_id);
	struct ctl_table *table = kmemdup(steady_table, sizeof(steady_table), GFP_KERNEL);
	int i;

	if (!table)
		return -ENOMEM;
	steady->parameters = (struct steady_parameters)STEADY_DEFAULTS;
	for (i = 0; i < ARRAY_SIZE(steady_table); i++)
		table[i].data = (void *)steady + (unsigned long)table[i].data;
	steady->sysctls = register_net_sysctl_sz(net, "net/ipv4", table, ARRAY_SIZE(steady_table));
	if (steady->sysctls)
		return 0;
	kfree(table);
	return -ENOMEM;
}

static void __net_exit end_host(struct net *net)
{
	struct steady_host *steady = net_generic(net, steady_host_id);
	const struct ctl_table *table = steady->sysctls->ctl_table_arg;

	unregister_net_sysctl_table(steady->sysctls);
	kfree(table);
}

static struct pernet_operations steady_hosts = {
	.init = begin_host,
	.exit = end_host,
	.id = &steady_host_id,
	.size = sizeof(struct steady_host),
};

static int __init register_steady(void)
{
	int error;

	BUILD_BUG_ON(sizeof(struct steady_flow) > ICSK_CA_PRIV_SIZE);
	error = register_pernet_subsys(&steady_hosts);
	return error ? error : tcp_register_congestion_control(&steady);
}
late_initcall(register_steady);
