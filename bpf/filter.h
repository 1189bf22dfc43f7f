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

#define FILTER_MAX 16

struct tx_prefix {
	__u8 addr[16];
	__u16 family;
	__u16 length; /* bits */
};

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

static __always_inline bool has_port(const volatile __u16 *ports, u32 n, u16 port)
{
	for (u32 i = 0; i < FILTER_MAX; i++) {
		if (i >= n)
			return false;
		if (ports[i] == port)
			return true;
	}
	return false;
}

static __always_inline bool in_prefix(const volatile struct tx_prefix *prefix, const __u8 *addr,
				      u16 family)
{
	u32 bits = prefix->length;

	if (prefix->family != family)
		return false;
	for (u32 i = 0; i < 16; i++) {
		if (bits >= 8) {
			if (prefix->addr[i] != addr[i])
				return false;
			bits -= 8;
		} else {
			__u8 mask = 0xff00 >> bits;
			return !((prefix->addr[i] ^ addr[i]) & mask);
		}
	}
	return true;
}

static __always_inline bool in_prefixes(const volatile struct tx_prefix *prefixes, u32 n,
					const __u8 *addr, u16 family)
{
	for (u32 i = 0; i < FILTER_MAX; i++) {
		if (i >= n)
			return false;
		if (in_prefix(&prefixes[i], addr, family))
			return true;
	}
	return false;
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
