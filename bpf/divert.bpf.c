/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * Packets of a network stack in user space that shares its address with the
 * host. A packet socket sees a packet before tc ingress does: `pick`, the
 * socket's filter, lets through what concerns our ports, and `divert`, behind
 * it on the interface's ingress, drops the same, so that the host neither
 * answers with a reset nor processes it a second time.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define BPF_MAP_TYPE_LRU_HASH 9
#define BPF_HDR_START_NET 1
#define TC_ACT_SHOT 2	 /* TCX_DROP has the same number */
#define TC_ACT_UNSPEC -1 /* and TCX_NEXT this one */
#define PACKET_HOST 0
#define VLAN_VID_MASK 0x0fff
#define WHOLE_PACKET 0xffffffff

#define ETH_P_IP 0x0800
#define ETH_P_ARP 0x0806
#define ETH_P_IPV6 0x86dd

#define IPPROTO_HOPOPTS 0
#define IPPROTO_ICMP 1
#define IPPROTO_UDP 17
#define IPPROTO_ROUTING 43
#define IPPROTO_FRAGMENT 44
#define IPPROTO_AH 51
#define IPPROTO_ICMPV6 58
#define IPPROTO_DSTOPTS 60

#define IP_OFFSET 0x1fff
#define IP_MORE_FRAGMENTS 0x2000
#define IP6_OFFSET 0xfff8
#define IP6_MORE_FRAGMENTS 1
#define ARPOP_REPLY 2
#define ICMP_ECHOREPLY 0
#define ICMPV6_ECHO_REPLY 129
#define ND_NEIGHBOR_ADVERT 136
/* More than a packet of any sender that wants to arrive has (RFC 8200, 4.1). */
#define EXTENSION_HEADERS 8

/* As the kernel shows a packet to these programs (include/uapi/linux/bpf.h); no relocation. */
struct __sk_buff {
	__u32 len;
	__u32 pkt_type;
	__u32 mark;
	__u32 queue_mapping;
	__u32 protocol;
	__u32 vlan_present;
	__u32 vlan_tci;
	__u32 vlan_proto;
};

/* IPv4 as ::ffff:a.b.c.d. */
struct address {
	__be32 word[4];
};

/* What the fragments of one packet have in common (RFC 791, RFC 8200). */
struct fragments {
	struct address from;
	struct address to;
	__u32 id;
	__u32 protocol;
};

/* Ours: user space adds and removes them. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, struct address);
	__type(value, __u8);
} addresses SEC(".maps");

/* One bit a port: 1024 words for TCP, then as many for UDP. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2048);
	__type(key, __u32);
	__type(value, __u64);
} ports SEC(".maps");

/* Whose the first fragment of a packet was, if not the host's alone: the others do not tell. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct fragments);
	__type(value, __u8);
} begun SEC(".maps");

enum { DIVERTED, LATE_FRAGMENTS, COUNTERS };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTERS);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

enum concern {
	HOST, /* only the host */
	BOTH, /* the host and us */
	LATE, /* both: a fragment that came before the first of its packet */
	US,
};

/* Where the transport header of a packet is, and what the IP headers say. */
struct packet {
	struct fragments whole;
	__u32 transport; /* from the network header */
	bool first;	 /* or not fragmented at all */
	bool more;
};

struct icmp_error {
	__u8 type;
	__u8 code;
	__be16 checksum;
	__be32 rest;
};

static __always_inline bool load(struct __sk_buff *skb, __u32 offset, void *to, __u32 length)
{
	return !bpf_skb_load_bytes_relative(skb, offset, to, length, BPF_HDR_START_NET);
}

static __always_inline bool is_our_address(const struct address *address)
{
	return bpf_map_lookup_elem(&addresses, address) != NULL;
}

static __always_inline bool is_our_port(__u32 protocol, __be16 port)
{
	__u32 number = bpf_ntohs(port);
	__u32 word = number / 64 + (protocol == IPPROTO_UDP ? 1024 : 0);
	__u64 *bits = bpf_map_lookup_elem(&ports, &word);

	return bits && (*bits >> (number % 64) & 1);
}

static __always_inline void map_address(struct address *to, __be32 address)
{
	to->word[0] = 0;
	to->word[1] = 0;
	to->word[2] = bpf_htonl(0xffff);
	to->word[3] = address;
}

struct ipv4_header {
	__u8 version_ihl;
	__u8 tos;
	__be16 length;
	__be16 id;
	__be16 fragment;
	__u8 ttl;
	__u8 protocol;
	__be16 checksum;
	__be32 from;
	__be32 to;
};

static __always_inline bool read_ipv4(struct __sk_buff *skb, __u32 at, struct packet *packet)
{
	struct ipv4_header ip;
	__u32 length;
	__u16 fragment;

	if (!load(skb, at, &ip, sizeof(ip)))
		return false;
	length = (ip.version_ihl & 15) * 4;
	if (ip.version_ihl >> 4 != 4 || length < sizeof(ip))
		return false;
	fragment = bpf_ntohs(ip.fragment);
	map_address(&packet->whole.from, ip.from);
	map_address(&packet->whole.to, ip.to);
	packet->whole.id = ip.id;
	packet->whole.protocol = ip.protocol;
	packet->transport = at + length;
	packet->first = (fragment & IP_OFFSET) == 0;
	packet->more = (fragment & IP_MORE_FRAGMENTS) != 0;
	return true;
}

struct ipv6_header {
	__be32 flow;
	__be16 length;
	__u8 next;
	__u8 hop_limit;
	struct address from;
	struct address to;
};

struct extension_header {
	__u8 next;
	__u8 length;
	__be16 fragment;
	__be32 id;
};

static __always_inline bool is_extension(__u32 protocol)
{
	return protocol == IPPROTO_HOPOPTS || protocol == IPPROTO_ROUTING ||
	       protocol == IPPROTO_FRAGMENT || protocol == IPPROTO_AH ||
	       protocol == IPPROTO_DSTOPTS;
}

static __always_inline bool read_ipv6(struct __sk_buff *skb, __u32 at, struct packet *packet)
{
	struct extension_header extension;
	struct ipv6_header ip;
	__u32 protocol, fragment;

	if (!load(skb, at, &ip, sizeof(ip)))
		return false;
	packet->whole.from = ip.from;
	packet->whole.to = ip.to;
	packet->whole.id = 0;
	packet->first = true;
	packet->more = false;
	protocol = ip.next;
	at += sizeof(ip);
	for (int i = 0; i < EXTENSION_HEADERS; i++) {
		if (!is_extension(protocol) || !packet->first)
			break;
		if (!load(skb, at, &extension, sizeof(extension)))
			return false;
		if (protocol == IPPROTO_FRAGMENT) {
			fragment = bpf_ntohs(extension.fragment);
			packet->whole.id = extension.id;
			packet->first = (fragment & IP6_OFFSET) == 0;
			packet->more = (fragment & IP6_MORE_FRAGMENTS) != 0;
			at += 8;
		} else if (protocol == IPPROTO_AH) {
			at += (extension.length + 2) * 4;
		} else {
			at += (extension.length + 1) * 8;
		}
		protocol = extension.next;
	}
	packet->whole.protocol = protocol;
	packet->transport = at;
	return true;
}

static __always_inline bool read_packet(struct __sk_buff *skb, __u32 at, bool ipv6,
					struct packet *packet)
{
	return ipv6 ? read_ipv6(skb, at, packet) : read_ipv4(skb, at, packet);
}

static __always_inline bool has_ports(__u32 protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP;
}

/*
 * An answer to a ping is to one of either, which ignores what it has not asked.
 * An error quotes the packet that caused it: sent by us, from one of our ports?
 */
static __always_inline enum concern judge_icmp(struct __sk_buff *skb, bool ipv6, __u32 at)
{
	struct packet quoted = {};
	struct icmp_error icmp;
	__be16 from_port;

	if (!load(skb, at, &icmp, sizeof(icmp)))
		return HOST;
	if (ipv6) {
		if (icmp.type == ND_NEIGHBOR_ADVERT || icmp.type == ICMPV6_ECHO_REPLY)
			return BOTH;
		/* Unreachable, too big, time exceeded, parameter problem (RFC 4443). */
		if (icmp.type < 1 || icmp.type > 4)
			return HOST;
	} else if (icmp.type == ICMP_ECHOREPLY) {
		return BOTH;
	} else if (icmp.type != 3 && icmp.type != 11 && icmp.type != 12) {
		return HOST;
	}
	if (!read_packet(skb, at + sizeof(icmp), ipv6, &quoted))
		return HOST;
	if (!quoted.first || !is_our_address(&quoted.whole.from))
		return HOST;
	if (quoted.whole.protocol == (ipv6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP))
		return BOTH;
	if (!has_ports(quoted.whole.protocol) ||
	    !load(skb, quoted.transport, &from_port, sizeof(from_port)))
		return HOST;
	return is_our_port(quoted.whole.protocol, from_port) ? US : HOST;
}

static __always_inline enum concern judge_port(struct __sk_buff *skb, const struct packet *packet)
{
	__be16 to_port;

	if (!load(skb, packet->transport + 2, &to_port, sizeof(to_port)))
		return HOST;
	return is_our_port(packet->whole.protocol, to_port) ? US : HOST;
}

static __always_inline enum concern judge_ip(struct __sk_buff *skb, bool ipv6)
{
	struct packet packet = {};
	__u8 *whose, begins;
	bool is_icmp;

	if (!read_packet(skb, 0, ipv6, &packet) || !is_our_address(&packet.whole.to))
		return HOST;
	is_icmp = packet.whole.protocol == (ipv6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP);
	if (!is_icmp && !has_ports(packet.whole.protocol))
		return HOST;
	if (!packet.first) {
		whose = bpf_map_lookup_elem(&begun, &packet.whole);
		if (whose)
			return *whose;
		return is_icmp ? HOST : LATE;
	}
	begins = is_icmp ? judge_icmp(skb, ipv6, packet.transport) : judge_port(skb, &packet);
	/* Numbers come again: an earlier packet of ours may have had that of a host's. */
	if (packet.more && begins == HOST)
		bpf_map_delete_elem(&begun, &packet.whole);
	else if (packet.more)
		bpf_map_update_elem(&begun, &packet.whole, &begins, BPF_ANY);
	return begins;
}

struct arp {
	__u8 kinds[6];
	__be16 operation;
	__u8 from_mac[6];
	__u8 from[4];
	__u8 to_mac[6];
	__be32 to;
} __attribute__((packed));

/* The host answers requests; answers may be to a question of either. */
static __always_inline enum concern judge_arp(struct __sk_buff *skb)
{
	struct address to;
	struct arp arp;

	if (!load(skb, 0, &arp, sizeof(arp)) || arp.operation != bpf_htons(ARPOP_REPLY))
		return HOST;
	map_address(&to, arp.to);
	return is_our_address(&to) ? BOTH : HOST;
}

static __always_inline enum concern judge(struct __sk_buff *skb)
{
	if (skb->pkt_type != PACKET_HOST)
		return HOST;
	/* Of another interface, stacked on this one; VLAN 0 is only a priority (IEEE 802.1Q). */
	if (skb->vlan_present && (skb->vlan_tci & VLAN_VID_MASK))
		return HOST;
	switch (bpf_ntohs(skb->protocol)) {
	case ETH_P_IP:
		return judge_ip(skb, false);
	case ETH_P_IPV6:
		return judge_ip(skb, true);
	case ETH_P_ARP:
		return judge_arp(skb);
	}
	return HOST;
}

static __always_inline void count(__u32 which)
{
	__u64 *counter = bpf_map_lookup_elem(&counters, &which);

	if (counter)
		*counter += 1;
}

SEC("socket")
int pick(struct __sk_buff *skb)
{
	return judge(skb) == HOST ? 0 : WHOLE_PACKET;
}

SEC("tc")
int divert(struct __sk_buff *skb)
{
	enum concern whose = judge(skb);

	if (whose == LATE)
		count(LATE_FRAGMENTS);
	if (whose != US)
		return TC_ACT_UNSPEC;
	count(DIVERTED);
	return TC_ACT_SHOT;
}
