// SPDX-License-Identifier: GPL-2.0
/*
 * Hosts: network namespaces of one kernel. The host's thread is in one of them
 * at a time, and what it calls happens there.
 */
#include <linux/nsproxy.h>
#include <linux/user_namespace.h>
#include <net/net_namespace.h>

#include "library.h"

int linux_net_add(struct linux_net **made)
{
	struct net *net;

	transom_enter();
	/* By default as many as half of the threads that memory allows. */
	init_user_ns.ucount_max[UCOUNT_NET_NAMESPACES] = INT_MAX;
	net = copy_net_ns(CLONE_NEWNET, &init_user_ns, &init_net);
	if (!IS_ERR(net))
		*made = (struct linux_net *)net;
	return transom_leave(PTR_ERR_OR_ZERO(net));
}

/* Threads of the kernel share what pid 1 begins with, and stay in the first. */
static struct nsproxy here;

void linux_net_use(struct linux_net *net)
{
	if (current->nsproxy != &here) {
		here = *current->nsproxy;
		current->nsproxy = &here;
	}
	here.net_ns = net ? (struct net *)net : &init_net;
}
