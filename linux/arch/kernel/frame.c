// SPDX-License-Identifier: GPL-2.0
/*
 * Frames by reference: what one host of the library sends, another receives
 * without a byte of payload being copied. The host carries them in between.
 */
#include <linux/etherdevice.h>
#include <linux/nsproxy.h>
#include <net/sock.h>

#include "library.h"
#include "nic.h"

static struct sk_buff *skb_of(struct linux_frame *frame)
{
	return (struct sk_buff *)frame;
}

/*
 * What a TAP device would make of a frame of this size: the receiver's buffer
 * is charged for that, not for what the sender has allocated.
 */
static unsigned int received_truesize(unsigned int size)
{
	return SKB_TRUESIZE(SKB_DATA_ALIGN(size + NET_SKB_PAD));
}

/*
 * GRO takes the pages of a frame and leaves its head, and charges what is left
 * of its size (skb_gro_receive). Of a TAP device's frame the head goes along,
 * and all but the sk_buff is charged: the frames joined must not become less
 * than their bytes. TCP takes what a segment costs from them, and would find a
 * window of nothing.
 */
static void charge_for_joining(struct sk_buff *skb)
{
	unsigned int own = SKB_TRUESIZE(skb_end_offset(skb));

	if (skb_is_nonlinear(skb))
		skb->truesize =
			own + received_truesize(skb->len) - SKB_DATA_ALIGN(sizeof(struct sk_buff));
}

/*
 * As when a device has copied the bytes: nothing of the sender is left. TCP
 * sends clones and looks at whether they still live.
 */
static struct sk_buff *detached(struct sk_buff *skb)
{
	struct sk_buff *copy = skb;

	if (skb_cloned(skb)) {
		copy = pskb_copy(skb, GFP_ATOMIC);
		consume_skb(skb);
		if (!copy)
			return NULL;
	}
	skb_orphan(copy);
	skb_scrub_packet(copy, true);
	copy->truesize = received_truesize(copy->len);
	return copy;
}

netdev_tx_t frame_transmit(struct sk_buff *skb, struct net_device *dev)
{
	struct linux_nic *nic = netdev_priv(dev);
	struct sk_buff *frame = detached(skb);

	if (!frame) {
		dev->stats.tx_errors++;
		return NETDEV_TX_OK;
	}
	dev->stats.tx_packets++;
	dev->stats.tx_bytes += frame->len;
	if (host->frame_transmit(host->host, nic->cookie, (struct linux_frame *)frame))
		netif_stop_queue(dev);
	return NETDEV_TX_OK;
}

int linux_nic_deliver(struct linux_nic *nic, struct linux_frame *frame)
{
	struct sk_buff *skb = skb_of(frame);
	struct net_device *dev = nic->dev;
	unsigned int size = skb->len;
	int error = netif_running(dev) ? 0 : -ENETDOWN;

	transom_enter();
	if (!error)
		error = nic_identify(nic, skb);
	if (error) {
		dev->stats.rx_errors++;
		kfree_skb(skb);
		return transom_leave(error);
	}
	dev->stats.rx_packets++;
	dev->stats.rx_bytes += size;
	if (nic->gro) {
		charge_for_joining(skb);
		nic_queue_received(nic, skb);
		return transom_leave(0);
	}
	local_bh_disable();
	netif_receive_skb(skb);
	local_bh_enable();
	return transom_leave(0);
}

void linux_frame_free(struct linux_frame *frame)
{
	transom_enter();
	consume_skb(skb_of(frame));
	transom_leave(0);
}

struct linux_frame *linux_frame_copy(struct linux_frame *frame)
{
	struct sk_buff *copy;

	transom_enter();
	copy = pskb_copy(skb_of(frame), GFP_ATOMIC);
	if (copy)
		copy->truesize = received_truesize(copy->len);
	transom_leave(0);
	return (struct linux_frame *)copy;
}

struct linux_piece linux_frame_head(struct linux_frame *frame)
{
	struct sk_buff *skb = skb_of(frame);

	return (struct linux_piece){skb->data, skb_headlen(skb)};
}

size_t linux_frame_size(const struct linux_frame *frame)
{
	return ((const struct sk_buff *)frame)->len;
}

int linux_frame_read(struct linux_frame *frame, void *to, size_t size)
{
	struct sk_buff *skb = skb_of(frame);
	int error = 0;

	if (size < skb->len)
		return -EMSGSIZE;
	transom_enter();
	if (skb->ip_summed == CHECKSUM_PARTIAL)
		error = skb_checksum_help(skb);
	if (!error)
		error = skb_copy_bits(skb, 0, to, skb->len);
	return transom_leave(error ? error : skb->len);
}

struct linux_frame *linux_frame_make(const void *bytes, size_t size)
{
	struct sk_buff *skb;

	transom_enter();
	skb = alloc_skb(NET_SKB_PAD + size, GFP_ATOMIC);
	if (skb) {
		skb_reserve(skb, NET_SKB_PAD);
		skb_put_data(skb, bytes, size);
		skb->truesize = received_truesize(size);
		/* Nothing on the way has changed it. */
		skb->ip_summed = CHECKSUM_UNNECESSARY;
	}
	transom_leave(0);
	return (struct linux_frame *)skb;
}
