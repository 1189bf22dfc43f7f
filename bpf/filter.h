/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/* Whether a connection is wanted: what the filter of settings.h says of it. */
#ifndef TRANSOM_FILTER_H
#define TRANSOM_FILTER_H

#include "compat.h"
#include "event.h"
#include "settings.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u8);
} processes SEC(".maps");

static __always_inline bool process_wanted(u32 tgid)
{
	return !settings.filter.by_process || bpf_map_lookup_elem(&processes, &tgid);
}

static __noinline bool ports_wanted(const struct tx_open *who)
{
	if (settings.filter.ports &&
	    !has_port(settings.filter.port, settings.filter.ports, who->local_port) &&
	    !has_port(settings.filter.port, settings.filter.ports, who->remote_port))
		return false;
	if (settings.filter.local_ports &&
	    !has_port(settings.filter.local_port, settings.filter.local_ports, who->local_port))
		return false;
	if (settings.filter.remote_ports &&
	    !has_port(settings.filter.remote_port, settings.filter.remote_ports, who->remote_port))
		return false;
	return true;
}

static __noinline bool prefixes_wanted(const struct tx_open *who)
{
	if (settings.filter.local_prefixes &&
	    !in_prefixes(settings.filter.local_prefix, settings.filter.local_prefixes,
			 who->local_addr, who->family))
		return false;
	if (settings.filter.remote_prefixes &&
	    !in_prefixes(settings.filter.remote_prefix, settings.filter.remote_prefixes,
			 who->remote_addr, who->family))
		return false;
	return true;
}

/* All that does not change while a connection lives; the process is asked apart. */
static __always_inline bool connection_wanted(const struct tx_open *who, struct sock *sk)
{
	if (settings.filter.netns && settings.filter.netns != who->netns)
		return false;
	if (settings.filter.ifindex && settings.filter.ifindex != who->ifindex)
		return false;
	if (settings.filter.cgroup && !in_cgroup((u64)socket_cgroup(sk), settings.filter.cgroup))
		return false;
	return ports_wanted(who) && prefixes_wanted(who);
}

#endif
