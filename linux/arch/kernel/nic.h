/* SPDX-License-Identifier: GPL-2.0 */
/* What the two ways of a frame (nic.c: as bytes, frame.c: by reference) share. */
#ifndef TRANSOM_KERNEL_NIC_H
#define TRANSOM_KERNEL_NIC_H

#include <linux/netdevice.h>
#include <linux/skbuff.h>

struct linux_nic {
	struct net_device *dev;
	struct napi_struct napi;
	struct sk_buff_head received;
	struct page *block;
	unsigned int at; /* where the next frame goes */
	u64 cookie;
	bool raw_ip;
	bool gro;
};

/* nic.c: what a frame is, by its first bytes. */
int nic_identify(struct linux_nic *nic, struct sk_buff *skb);
void nic_queue_received(struct linux_nic *nic, struct sk_buff *skb);

/* frame.c */
netdev_tx_t frame_transmit(struct sk_buff *skb, struct net_device *dev);

#endif
