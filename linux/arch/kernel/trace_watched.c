// SPDX-License-Identifier: GPL-2.0
/*
 * What is remembered of each connection while events are told. There is one
 * CPU and no preemption: nothing comes in between.
 */
#include <linux/hash.h>
#include <linux/hashtable.h>
#include <linux/slab.h>

#include "trace.h"

static DEFINE_HASHTABLE(connections, 10);

struct watched *watched_find(const struct sock *sk)
{
	struct watched *watched;

	hash_for_each_possible(connections, watched, node,
			       (unsigned long)sk) if (watched->sk == sk) return watched;
	return NULL;
}

/* Anew if it is known: the same socket may connect again. NULL if memory ended. */
struct watched *watched_begin(const struct sock *sk, u8 origin)
{
	struct watched *watched = watched_find(sk);

	if (watched)
		hash_del(&watched->node);
	else
		watched = kmalloc(sizeof(*watched), GFP_ATOMIC);
	if (!watched)
		return NULL;
	*watched = (struct watched){.sk = sk, .origin = origin};
	hash_add(connections, &watched->node, (unsigned long)sk);
	return watched;
}

void watched_forget(struct watched *watched)
{
	hash_del(&watched->node);
	kfree(watched);
}

void watched_forget_all(void)
{
	struct watched *watched;
	struct hlist_node *next;
	int bucket;

	hash_for_each_safe(connections, bucket, next, watched, node) watched_forget(watched);
}
