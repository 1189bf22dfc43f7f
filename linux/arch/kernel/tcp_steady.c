// SPDX-License-Identifier: GPL-2.0
/*
 * `steady` in C: what bpf/steady.bpf.c is for a kernel of its own, with the
 * same arithmetic (bpf/steady.h) and the parameters as sysctls of all sockets:
 * net.ipv4.tcp_steady_target, _cap (segments), _backoff and _gain (1024ths).
 */
#include <linux/init.h>
#include <linux/sysctl.h>
#include <net/net_namespace.h>
#include <net/tcp.h>

#include "steady.h"

static struct steady_parameters parameters = {
	.target = 0, .cap = 0, .backoff = 128, .gain = STEADY_ONE,
};

struct steady {
	u64 credit;	   /* see steady_grown */
	u32 delivered;	   /* tcp_sock.delivered at the last ACK */
	u32 before;	   /* the window before congestion, for undo and for halving */
	u32 fall_to;	   /* window to take at the next ACK; 0 = none */
	u32 jumped_to;	   /* the target we last jumped to */
	u32 timeouts;	   /* in a row */
	u32 pacing_status; /* before us */
	u32 marked;	   /* the last ACK carried ECE */
};

static void set_window(struct sock *sk, u32 window)
{
	struct tcp_sock *tp = tcp_sk(sk);

	window = steady_within(window, parameters.cap, tp->snd_cwnd_clamp);
	tcp_snd_cwnd_set(tp, window);
	sk->sk_pacing_rate = steady_pace(window, tp->mss_cache, tp->srtt_us >> 3,
					 sk->sk_max_pacing_rate);
}

/* Once a target, when the round trip is known, for a jump is spread over it. */
static u32 jump(struct sock *sk, u32 window)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct steady *s = inet_csk_ca(sk);

	if (s->jumped_to == parameters.target || !tp->srtt_us)
		return window;
	s->jumped_to = parameters.target;
	if (!parameters.target)
		return window;
	window = steady_within(steady_start(window, parameters.target), parameters.cap,
			       tp->snd_cwnd_clamp);
	tp->snd_ssthresh = window;
	return window;
}

static void steady_init(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct steady *s = inet_csk_ca(sk);

	*s = (struct steady){
		.delivered = tp->delivered,
		.before = tcp_snd_cwnd(tp),
		.pacing_status = sk->sk_pacing_status,
	};
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
	set_window(sk, jump(sk, tcp_snd_cwnd(tp)));
}

static void steady_release(struct sock *sk)
{
	struct steady *s = inet_csk_ca(sk);

	if (s->pacing_status != SK_PACING_NONE)
		return;
	sk->sk_pacing_status = SK_PACING_NONE;
	sk->sk_pacing_rate = sk->sk_max_pacing_rate;
}

/* Congestion, once a window: the kernel asks what the threshold becomes. */
static u32 steady_ssthresh(struct sock *sk)
{
	struct steady *s = inet_csk_ca(sk);
	u32 backoff = parameters.backoff;

	/* After a timeout the window says nothing about what the path held. */
	if (!s->timeouts)
		s->before = tcp_snd_cwnd(tcp_sk(sk));
	if (s->marked)
		backoff = steady_max(backoff, STEADY_ECN_BACKOFF);
	s->fall_to = steady_backed_off(s->before, backoff);
	s->credit = 0;
	return s->fall_to;
}

/* Called each time the timer expires, also when the state was Loss already. */
static void steady_set_state(struct sock *sk, u8 state)
{
	struct steady *s = inet_csk_ca(sk);

	if (state == TCP_CA_Loss) {
		s->timeouts++;
		s->fall_to = 0;
		if (s->timeouts >= 2)
			tcp_sk(sk)->snd_ssthresh = steady_halved(s->before);
	} else if (state == TCP_CA_Open) {
		s->timeouts = 0;
	}
}

static void steady_in_ack_event(struct sock *sk, u32 flags)
{
	struct steady *s = inet_csk_ca(sk);

	s->marked = !!(flags & CA_ACK_ECE);
}

static void steady_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 window;

	/* The kernel says the same when all that is out was declared lost. */
	if (event != CA_EVENT_TX_START || tp->packets_out || !tp->lsndtime ||
	    tcp_jiffies32 - tp->lsndtime <= inet_csk(sk)->icsk_rto)
		return;
	window = steady_after_idle(tcp_snd_cwnd(tp), parameters.target);
	if (parameters.target && window < tp->snd_ssthresh)
		tp->snd_ssthresh = window;
	set_window(sk, window);
}

/* The window in the Loss state: one timeout is not believed, the second in a row is. */
static u32 in_loss(const struct steady *s, u32 window, u32 ssthresh, u32 acked)
{
	if (s->timeouts < 2)
		return acked ? steady_max(window, ssthresh) : window;
	return steady_slow_start(window, acked, ssthresh);
}

static void steady_cong_control(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct steady *s = inet_csk_ca(sk);
	u32 window = tcp_snd_cwnd(tp), acked = tp->delivered - s->delivered;
	u8 state = inet_csk(sk)->icsk_ca_state;

	s->delivered = tp->delivered;
	if (state == TCP_CA_Loss) {
		window = in_loss(s, window, tp->snd_ssthresh, acked);
	} else if (s->fall_to) {
		window = steady_min(window, s->fall_to);
		s->fall_to = 0;
	} else if (state == TCP_CA_Open || state == TCP_CA_Disorder) {
		window = jump(sk, window);
		/* RFC 7661: a window that is not used is not vouched for. */
		if (tp->is_cwnd_limited && window < tp->snd_ssthresh)
			window = steady_slow_start(window, acked, tp->snd_ssthresh);
		else if (tp->is_cwnd_limited)
			window = steady_grown(window, &s->credit, acked, parameters.gain);
	}
	set_window(sk, window);
}

/* It was no congestion (Eifel, F-RTO, D-SACK): as if nothing had been. */
static u32 steady_undo_cwnd(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct steady *s = inet_csk_ca(sk);

	s->fall_to = 0;
	s->timeouts = 0;
	return steady_within(steady_max(tcp_snd_cwnd(tp), s->before), parameters.cap,
			     tp->snd_cwnd_clamp);
}

static struct tcp_congestion_ops steady = {
	.flags		= TCP_CONG_NON_RESTRICTED,
	.name		= "steady",
	.owner		= THIS_MODULE,
	.init		= steady_init,
	.release	= steady_release,
	.ssthresh	= steady_ssthresh,
	.set_state	= steady_set_state,
	.in_ack_event	= steady_in_ack_event,
	.cwnd_event	= steady_cwnd_event,
	.cong_control	= steady_cong_control,
	.undo_cwnd	= steady_undo_cwnd,
};

static struct ctl_table steady_table[] = {
	{ .procname = "tcp_steady_target", .data = &parameters.target, .maxlen = sizeof(u32),
	  .mode = 0644, .proc_handler = proc_douintvec },
	{ .procname = "tcp_steady_cap", .data = &parameters.cap, .maxlen = sizeof(u32),
	  .mode = 0644, .proc_handler = proc_douintvec },
	{ .procname = "tcp_steady_backoff", .data = &parameters.backoff, .maxlen = sizeof(u32),
	  .mode = 0644, .proc_handler = proc_douintvec },
	{ .procname = "tcp_steady_gain", .data = &parameters.gain, .maxlen = sizeof(u32),
	  .mode = 0644, .proc_handler = proc_douintvec },
};

static int __init register_steady(void)
{
	BUILD_BUG_ON(sizeof(struct steady) > ICSK_CA_PRIV_SIZE);
	register_net_sysctl(&init_net, "net/ipv4", steady_table);
	return tcp_register_congestion_control(&steady);
}
late_initcall(register_steady);
