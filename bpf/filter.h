/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * Which connections are wanted. Set before loading, so that the verifier
 * removes what is not asked for. Values of one key are alternatives, keys
 * must all hold.
 */
#ifndef TRANSOM_FILTER_H
#define TRANSOM_FILTER_H

#include "compat.h"
#include "event.h"
#include "match.h"

struct tx_filter {
	__u64 cgroup;
	__u32 cgroup_level;
	__u32 netns; /* inode number */
	__u32 ifindex;
	__u32 by_process; /* only sockets touched by a tgid in `processes` */
	__u32 follow_children;
	__u32 ports, local_ports, remote_ports; /* how many */
	__u32 local_prefixes, remote_prefixes;
	__u16 port[FILTER_MAX]; /* either end */
	__u16 local_port[FILTER_MAX];
	__u16 remote_port[FILTER_MAX];
	struct tx_prefix local_prefix[FILTER_MAX];
	struct tx_prefix remote_prefix[FILTER_MAX];
};

const volatile struct tx_filter filter = {};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u8);
} processes SEC(".maps");

static __always_inline bool process_wanted(u32 tgid)
{
	return !filter.by_process || bpf_map_lookup_elem(&processes, &tgid);
}

static __noinline bool ports_wanted(const struct tx_open *who)
{
	if (filter.ports && !has_port(filter.port, filter.ports, who->local_port) &&
	    !has_port(filter.port, filter.ports, who->remote_port))
		return false;
	if (filter.local_ports && !has_port(filter.local_port, filter.local_ports, who->local_port))
		return false;
	if (filter.remote_ports &&
	    !has_port(filter.remote_port, filter.remote_ports, who->remote_port))
		return false;
	return true;
}

static __noinline bool prefixes_wanted(const struct tx_open *who)
{
	if (filter.local_prefixes &&
	    !in_prefixes(filter.local_prefix, filter.local_prefixes, who->local_addr, who->family))
		return false;
	if (filter.remote_prefixes && !in_prefixes(filter.remote_prefix, filter.remote_prefixes,
						   who->remote_addr, who->family))
		return false;
	return true;
}

/* All that does not change while a connection lives; the process is asked apart. */
static __always_inline bool connection_wanted(const struct tx_open *who, struct sock *sk)
{
	if (filter.netns && filter.netns != who->netns)
		return false;
	if (filter.ifindex && filter.ifindex != who->ifindex)
		return false;
	if (filter.cgroup &&
	    cgroup_ancestor_id(socket_cgroup(sk), filter.cgroup_level) != filter.cgroup)
		return false;
	return ports_wanted(who) && prefixes_wanted(who);
}

#endif
