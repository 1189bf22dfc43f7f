// SPDX-License-Identifier: GPL-2.0
/*
 * A NIC whose wire is the host. What leaves is handed over at once and is done
 * when the host's function returns; what comes waits for linux_run().
 */
#include <linux/etherdevice.h>
#include <linux/if_arp.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/nsproxy.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/skbuff.h>
#include <linux/tcp.h>
#include <linux/virtio_net.h>

#include "library.h"
#include "nic.h"

/* The largest frame: an IP packet (RFC 791) behind an Ethernet header. */
#define MOST_BYTES (65535 + ETH_HLEN)

/* Frames are received one behind the other into blocks of this size. */
#define RECEIVE_ORDER 6
#define RECEIVE_SIZE (PAGE_SIZE << RECEIVE_ORDER)

/* A frame up to this size is copied: a block is not to be kept for it. */
#define COPY_BELOW 1024

#define MOST_WAITING 8192

static int nic_open(struct net_device *dev)
{
	struct linux_nic *nic = netdev_priv(dev);

	napi_enable(&nic->napi);
	netif_start_queue(dev);
	return 0;
}

static int nic_stop(struct net_device *dev)
{
	struct linux_nic *nic = netdev_priv(dev);

	netif_stop_queue(dev);
	napi_disable(&nic->napi);
	skb_queue_purge(&nic->received);
	return 0;
}

static unsigned int pieces_of(struct sk_buff *skb, struct linux_piece *pieces)
{
	unsigned int i, n = 0;

	if (skb_headlen(skb))
		pieces[n++] = (struct linux_piece){skb->data, skb_headlen(skb)};
	for (i = 0; i < skb_shinfo(skb)->nr_frags; i++) {
		const skb_frag_t *frag = &skb_shinfo(skb)->frags[i];

		pieces[n++] = (struct linux_piece){skb_frag_address(frag), skb_frag_size(frag)};
	}
	return n;
}

static netdev_tx_t nic_transmit(struct sk_buff *skb, struct net_device *dev)
{
	struct linux_piece pieces[MAX_SKB_FRAGS + 1];
	struct linux_nic *nic = netdev_priv(dev);
	union {
		struct virtio_net_hdr kernels;
		struct linux_offload hosts;
	} offload;
	unsigned int n;

	BUILD_BUG_ON(sizeof(offload.kernels) != sizeof(offload.hosts));
	if (virtio_net_hdr_from_skb(skb, &offload.kernels, true, false, 0)) {
		dev->stats.tx_errors++;
		dev_kfree_skb_any(skb);
		return NETDEV_TX_OK;
	}
	n = pieces_of(skb, pieces);
	if (host->nic_transmit(host->host, nic->cookie, pieces, n, &offload.hosts)) {
		netif_stop_queue(dev);
		return NETDEV_TX_BUSY;
	}
	dev->stats.tx_packets++;
	dev->stats.tx_bytes += skb->len;
	dev_consume_skb_any(skb);
	return NETDEV_TX_OK;
}

static int nic_poll(struct napi_struct *napi, int budget)
{
	struct linux_nic *nic = container_of(napi, struct linux_nic, napi);
	struct sk_buff *skb;
	int done = 0;

	while (done < budget && (skb = __skb_dequeue(&nic->received))) {
		napi_gro_receive(napi, skb);
		done++;
	}
	if (done < budget)
		napi_complete_done(napi, done);
	return done;
}

static const struct net_device_ops nic_ops = {
	.ndo_open = nic_open,
	.ndo_stop = nic_stop,
	.ndo_start_xmit = nic_transmit,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_validate_addr = eth_validate_addr,
};

static const struct net_device_ops raw_ip_ops = {
	.ndo_open = nic_open,
	.ndo_stop = nic_stop,
	.ndo_start_xmit = nic_transmit,
};

static const struct net_device_ops frame_ops = {
	.ndo_open = nic_open,
	.ndo_stop = nic_stop,
	.ndo_start_xmit = frame_transmit,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_validate_addr = eth_validate_addr,
};

static const struct net_device_ops raw_ip_frame_ops = {
	.ndo_open = nic_open,
	.ndo_stop = nic_stop,
	.ndo_start_xmit = frame_transmit,
};

static void setup_raw_ip(struct net_device *dev)
{
	dev->type = ARPHRD_NONE;
	dev->hard_header_len = 0;
	dev->addr_len = 0;
	dev->tx_queue_len = 1000;
	dev->flags = IFF_POINTOPOINT | IFF_NOARP | IFF_MULTICAST;
}

static void set_features(struct net_device *dev, u32 flags)
{
	netdev_features_t features = NETIF_F_SG | NETIF_F_HIGHDMA;

	if (flags & LINUX_NIC_CHECKSUM)
		features |= NETIF_F_HW_CSUM;
	if (flags & LINUX_NIC_TSO)
		features |= NETIF_F_TSO | NETIF_F_TSO6 | NETIF_F_TSO_ECN;
	if (flags & LINUX_NIC_USO)
		features |= NETIF_F_GSO_UDP_L4;
	/* A piece of a frame needs no checksum of ours: scatter alone is of no use. */
	if (!(flags & LINUX_NIC_CHECKSUM))
		features = NETIF_F_HIGHDMA;
	dev->features = dev->hw_features = features;
	dev->vlan_features = features;
}

static struct net_device *allocate(const struct linux_nic_parameters *p)
{
	bool frames = p->flags & LINUX_NIC_FRAMES;
	struct net_device *dev;

	if (p->flags & LINUX_NIC_RAW_IP)
		dev = alloc_netdev(sizeof(struct linux_nic), p->name, NET_NAME_USER, setup_raw_ip);
	else
		dev = alloc_netdev(sizeof(struct linux_nic), p->name, NET_NAME_USER, ether_setup);
	if (!dev)
		return NULL;
	if (p->flags & LINUX_NIC_RAW_IP) {
		dev->netdev_ops = frames ? &raw_ip_frame_ops : &raw_ip_ops;
	} else {
		dev->netdev_ops = frames ? &frame_ops : &nic_ops;
		eth_hw_addr_set(dev, p->mac);
	}
	return dev;
}

static int checked(const struct linux_nic_parameters *p)
{
	if (!dev_valid_name(p->name))
		return -EINVAL;
	if (!(p->flags & LINUX_NIC_RAW_IP) && !is_valid_ether_addr(p->mac))
		return -EADDRNOTAVAIL;
	if (p->mtu < ETH_MIN_MTU || p->mtu > ETH_MAX_MTU)
		return -EINVAL;
	return 0;
}

int linux_nic_add(const struct linux_nic_parameters *p, struct linux_nic **made)
{
	struct net_device *dev;
	struct linux_nic *nic;
	int error = checked(p);

	if (error)
		return error;
	transom_enter();
	dev = allocate(p);
	if (!dev)
		return transom_leave(-ENOMEM);
	nic = netdev_priv(dev);
	nic->dev = dev;
	nic->cookie = p->cookie;
	nic->raw_ip = p->flags & LINUX_NIC_RAW_IP;
	nic->gro = p->flags & LINUX_NIC_GRO;
	skb_queue_head_init(&nic->received);
	dev->min_mtu = ETH_MIN_MTU;
	dev->max_mtu = ETH_MAX_MTU;
	dev->mtu = p->mtu;
	if (p->queue)
		dev->tx_queue_len = p->queue;
	if (p->gso_max_segs)
		WRITE_ONCE(dev->gso_max_segs, p->gso_max_segs);
	set_features(dev, p->flags);
	netif_napi_add(dev, &nic->napi, nic_poll);
	dev_net_set(dev, current->nsproxy->net_ns);
	error = register_netdev(dev);
	if (error)
		free_netdev(dev);
	else
		*made = nic;
	return transom_leave(error);
}

void linux_nic_remove(struct linux_nic *nic)
{
	transom_enter();
	unregister_netdev(nic->dev);
	if (nic->block)
		put_page(nic->block);
	free_netdev(nic->dev);
	transom_leave(0);
}

void linux_nic_carrier(struct linux_nic *nic, int up)
{
	transom_enter();
	if (up)
		netif_carrier_on(nic->dev);
	else
		netif_carrier_off(nic->dev);
	transom_leave(0);
}

int linux_nic_index(struct linux_nic *nic)
{
	return nic->dev->ifindex;
}

void linux_nic_wake(struct linux_nic *nic)
{
	transom_enter();
	netif_wake_queue(nic->dev);
	transom_leave(0);
}

unsigned int linux_nic_backlog(struct linux_nic *nic)
{
	return skb_queue_len(&nic->received);
}

/* What a frame of raw IP is: its first four bits say. */
static __be16 ip_protocol(const struct sk_buff *skb)
{
	switch (skb->data[0] >> 4) {
	case 4:
		return htons(ETH_P_IP);
	case 6:
		return htons(ETH_P_IPV6);
	}
	return 0;
}

int nic_identify(struct linux_nic *nic, struct sk_buff *skb)
{
	if (nic->raw_ip) {
		skb_reset_mac_header(skb);
		skb->dev = nic->dev;
		skb->protocol = ip_protocol(skb);
		return skb->protocol ? 0 : -EPROTO;
	}
	if (skb_headlen(skb) < ETH_HLEN)
		return -EPROTO;
	skb->protocol = eth_type_trans(skb, nic->dev);
	return 0;
}

void nic_queue_received(struct linux_nic *nic, struct sk_buff *skb)
{
	unsigned long flags;

	__skb_queue_tail(&nic->received, skb);
	if (!napi_schedule_prep(&nic->napi))
		return;
	local_irq_save(flags);
	__napi_schedule_irqoff(&nic->napi);
	local_irq_restore(flags);
}

static int take(struct linux_nic *nic, struct sk_buff *skb, const struct linux_offload *offload)
{
	struct net_device *dev = nic->dev;
	unsigned int size = skb->len;
	int error = 0;

	if (offload) {
		if (offload->flags & VIRTIO_NET_HDR_F_DATA_VALID)
			skb->ip_summed = CHECKSUM_UNNECESSARY;
		/* It looks at the protocol where there is none yet. */
		if (nic->raw_ip)
			skb->protocol = ip_protocol(skb);
		error = virtio_net_hdr_to_skb(skb, (const struct virtio_net_hdr *)offload, true);
	}
	if (!error)
		error = nic_identify(nic, skb);
	if (error) {
		dev->stats.rx_frame_errors++;
		dev->stats.rx_errors++;
		kfree_skb(skb);
		return error;
	}
	dev->stats.rx_packets++;
	dev->stats.rx_bytes += size;
	nic_queue_received(nic, skb);
	return 0;
}

static int may_receive(struct linux_nic *nic, size_t size)
{
	if (!netif_running(nic->dev))
		return -ENETDOWN;
	if (!size || size > MOST_BYTES)
		return -EMSGSIZE;
	if (skb_queue_len(&nic->received) < MOST_WAITING)
		return 0;
	nic->dev->stats.rx_dropped++;
	return -ENOBUFS;
}

static unsigned int transport_header(const u8 *at, size_t left, unsigned int protocol)
{
	if (protocol == IPPROTO_TCP && left >= sizeof(struct tcphdr))
		return min_t(size_t, left, ((const struct tcphdr *)at)->doff * 4);
	return 0;
}

/*
 * Headers lie in the frame's own buffer, the payload stays in pages: so pieces
 * of a stream are joined without a copy.
 */
static unsigned int header_size(struct linux_nic *nic, const u8 *frame, size_t size)
{
	unsigned int at = nic->raw_ip ? 0 : ETH_HLEN;
	const struct ipv6hdr *v6 = (const void *)(frame + at);
	const struct iphdr *v4 = (const void *)(frame + at);
	unsigned int ip;

	if (size < at + sizeof(*v6))
		return size;
	if (v4->version == 4) {
		ip = at + v4->ihl * 4;
		if (ip < at + sizeof(*v4) || ip > size)
			return min_t(size_t, size, at + sizeof(*v4));
		return ip + transport_header(frame + ip, size - ip, v4->protocol);
	}
	ip = at + sizeof(*v6);
	return ip + transport_header(frame + ip, size - ip, v6->nexthdr);
}

/* napi_alloc_skb() is for softirqs, and between two calls is none. */
static struct sk_buff *allocate_frame(struct linux_nic *nic, unsigned int size)
{
	struct sk_buff *skb;

	local_bh_disable();
	skb = napi_alloc_skb(&nic->napi, size);
	local_bh_enable();
	return skb;
}

/* Room for the largest frame. A block that no frame lives in any more begins anew. */
static u8 *room(struct linux_nic *nic)
{
	if (nic->block && page_count(nic->block) == 1)
		nic->at = 0;
	if (nic->block && RECEIVE_SIZE - nic->at < MOST_BYTES) {
		put_page(nic->block);
		nic->block = NULL;
	}
	if (!nic->block) {
		nic->block = alloc_pages(GFP_ATOMIC | __GFP_COMP | __GFP_NOWARN, RECEIVE_ORDER);
		nic->at = 0;
	}
	return nic->block ? page_address(nic->block) + nic->at : NULL;
}

int linux_nic_buffer(struct linux_nic *nic, struct linux_piece *buffer)
{
	u8 *at;

	transom_enter();
	at = room(nic);
	*buffer = (struct linux_piece){at, at ? MOST_BYTES : 0};
	return transom_leave(at ? 0 : -ENOMEM);
}

/* The part of the block that the frame fills becomes its own. */
static void attach(struct linux_nic *nic, struct sk_buff *skb, unsigned int header, size_t size)
{
	unsigned int filled = ALIGN(size, L1_CACHE_BYTES);

	get_page(nic->block);
	skb_add_rx_frag(skb, 0, nic->block, nic->at + header, size - header, filled);
	nic->at += filled;
}

int linux_nic_received(struct linux_nic *nic, size_t size, const struct linux_offload *offload)
{
	int error = may_receive(nic, size);
	unsigned int header = size;
	struct sk_buff *skb;
	const u8 *frame;

	if (error)
		return error;
	if (!nic->block)
		return -EINVAL;
	transom_enter();
	frame = page_address(nic->block) + nic->at;
	if (size >= COPY_BELOW)
		header = header_size(nic, frame, size);
	skb = allocate_frame(nic, header);
	if (!skb) {
		nic->dev->stats.rx_dropped++;
		return transom_leave(-ENOMEM);
	}
	memcpy(skb_put(skb, header), frame, header);
	if (header < size)
		attach(nic, skb, header, size);
	return transom_leave(take(nic, skb, offload));
}

int linux_nic_receive(struct linux_nic *nic, const void *frame, size_t size,
		      const struct linux_offload *offload)
{
	struct linux_piece buffer;
	int error = may_receive(nic, size);

	if (!error)
		error = linux_nic_buffer(nic, &buffer);
	if (error)
		return error;
	memcpy(buffer.at, frame, size);
	return linux_nic_received(nic, size, offload);
}
