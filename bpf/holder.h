/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/* Who holds the sockets that were there before us: one step of a walk over open files. */
#ifndef TRANSOM_HOLDER_H
#define TRANSOM_HOLDER_H

#include "kernel.h"

/* The socket behind the file that the walk has come to, or NULL. */
static __always_inline struct sock *socket_of(const struct bpf_iter__task_file *ctx)
{
	struct file *file = ctx->file;
	struct socket *socket;

	if (!ctx->task || !file)
		return NULL;
	socket = bpf_sock_from_file(file);
	return socket ? socket->sk : NULL;
}

#endif
