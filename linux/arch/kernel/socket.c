// SPDX-License-Identifier: GPL-2.0
/*
 * Sockets of the host: the kernel's own, without descriptors. The host's
 * pointers are "user" pointers: without an MMU these are as good as any.
 */
#include <linux/bpf-cgroup.h>
#include <linux/bvec.h>
#include <linux/fcntl.h>
#include <linux/file.h>
#include <linux/net.h>
#include <linux/netdevice.h>
#include <linux/slab.h>
#include <linux/socket.h>
#include <linux/sockios.h>
#include <linux/uio.h>
#include <linux/wait.h>
#include <library/series.h>
#include <net/sock.h>
#include <net/tcp.h>

#include "library.h"

/* Pages of the host are not pages of the library. */
#define REFUSED_FLAGS (MSG_ZEROCOPY | MSG_INTERNAL_SENDMSG_FLAGS)

struct linux_socket {
	struct socket *sock;
	wait_queue_entry_t wait;
	u64 cookie;
	/* Netlink asks who opened it: only then is there a file, and it owns the socket. */
	struct file *file;
	/* Where in the zeros the last write ended. */
	u32 zeros_at;
};

static int tell_host(wait_queue_entry_t *entry, unsigned int mode, int flags, void *key)
{
	struct linux_socket *s = container_of(entry, struct linux_socket, wait);

	host->socket_ready(host->host, s->cookie);
	return 0;
}

static struct linux_socket *watched(struct socket *sock, u64 cookie)
{
	struct linux_socket *s = kzalloc(sizeof(*s), GFP_KERNEL);

	if (!s)
		return NULL;
	s->sock = sock;
	s->cookie = cookie;
	init_waitqueue_func_entry(&s->wait, tell_host);
	add_wait_queue(&sock->wq.wait, &s->wait);
	return s;
}

static void release(struct socket *sock, struct file *file)
{
	if (file)
		fput(file);
	else
		sock_release(sock);
}

static int address_from(struct sockaddr_storage *to, const void *address, int size)
{
	if (size < 0 || size > sizeof(*to))
		return -EINVAL;
	memset(to, 0, sizeof(*to));
	memcpy(to, address, size);
	return 0;
}

/* `size` is the room before and the address's own size after. */
static int address_to(void *to, int *size, const struct sockaddr_storage *from, int result)
{
	if (result < 0)
		return result;
	if (*size < 0)
		return -EINVAL;
	memcpy(to, from, min(*size, result));
	*size = result;
	return 0;
}

int linux_socket(int family, int type, int protocol, u64 cookie, struct linux_socket **made)
{
	struct file *file = NULL;
	struct socket *sock;
	int error;

	transom_enter();
	error = sock_create(family, type & SOCK_TYPE_MASK, protocol, &sock);
	if (error)
		return transom_leave(error);
	if (family == AF_NETLINK) {
		file = sock_alloc_file(sock, O_NONBLOCK, NULL);
		/* It has released the socket if it failed. */
		if (IS_ERR(file))
			return transom_leave(PTR_ERR(file));
	}
	*made = watched(sock, cookie);
	if (*made)
		(*made)->file = file;
	else
		release(sock, file);
	return transom_leave(*made ? 0 : -ENOMEM);
}

int linux_bind(struct linux_socket *s, const void *address, int size)
{
	struct sockaddr_storage a;
	int error = address_from(&a, address, size);

	transom_enter();
	if (!error)
		error = READ_ONCE(s->sock->ops)->bind(s->sock, (struct sockaddr *)&a, size);
	return transom_leave(error);
}

int linux_connect(struct linux_socket *s, const void *address, int size)
{
	struct sockaddr_storage a;
	int error = address_from(&a, address, size);

	transom_enter();
	if (!error)
		error = READ_ONCE(s->sock->ops)
				->connect(s->sock, (struct sockaddr *)&a, size, O_NONBLOCK);
	return transom_leave(error);
}

int linux_listen(struct linux_socket *s, int backlog)
{
	int most = READ_ONCE(sock_net(s->sock->sk)->core.sysctl_somaxconn);

	transom_enter();
	if ((unsigned int)backlog > most)
		backlog = most;
	return transom_leave(READ_ONCE(s->sock->ops)->listen(s->sock, backlog));
}

int linux_accept(struct linux_socket *s, u64 cookie, struct linux_socket **made)
{
	struct socket *sock;
	int error;

	transom_enter();
	error = kernel_accept(s->sock, &sock, O_NONBLOCK);
	if (error)
		return transom_leave(error);
	*made = watched(sock, cookie);
	if (!*made) {
		sock_release(sock);
		error = -ENOMEM;
	}
	return transom_leave(error);
}

int linux_shutdown(struct linux_socket *s, int how)
{
	transom_enter();
	return transom_leave(READ_ONCE(s->sock->ops)->shutdown(s->sock, how));
}

void linux_close(struct linux_socket *s)
{
	transom_enter();
	remove_wait_queue(&s->sock->wq.wait, &s->wait);
	release(s->sock, s->file);
	kfree(s);
	transom_leave(0);
}

static ssize_t total_size(const struct linux_message *m)
{
	size_t i, total = 0;

	if (m->count > UIO_MAXIOV)
		return -EMSGSIZE;
	for (i = 0; i < m->count; i++) {
		if (m->pieces[i].size > MAX_RW_COUNT - total)
			return -EINVAL;
		total += m->pieces[i].size;
	}
	return total;
}

static ssize_t pieces_of(struct iov_iter *iter, unsigned int direction,
			 const struct linux_message *m)
{
	ssize_t total = total_size(m);

	BUILD_BUG_ON(sizeof(struct linux_piece) != sizeof(struct iovec));
	if (total < 0)
		return total;
	if (m->count == 1)
		iov_iter_ubuf(iter, direction, (void __user *)m->pieces->at, m->pieces->size);
	else
		iov_iter_init(iter, direction, (const struct iovec *)m->pieces, m->count, total);
	return total;
}

ssize_t linux_send(struct linux_socket *s, struct linux_message *m, int flags)
{
	struct sockaddr_storage a;
	struct msghdr msg = {};
	ssize_t n;

	if (flags & REFUSED_FLAGS)
		return -EOPNOTSUPP;
	n = pieces_of(&msg.msg_iter, ITER_SOURCE, m);
	if (n >= 0 && m->name_size)
		n = address_from(&a, m->name, m->name_size);
	if (n < 0)
		return n;
	if (m->name_size) {
		msg.msg_name = &a;
		msg.msg_namelen = m->name_size;
	}
	msg.msg_control = m->control_size ? m->control : NULL;
	msg.msg_controllen = m->control_size;
	msg.msg_flags = flags | MSG_DONTWAIT | MSG_NOSIGNAL;
	transom_enter();
	return transom_leave(sock_sendmsg(s->sock, &msg));
}

ssize_t linux_receive(struct linux_socket *s, struct linux_message *m, int flags)
{
	struct sockaddr_storage a;
	struct msghdr msg = {};
	ssize_t n;

	n = pieces_of(&msg.msg_iter, ITER_DEST, m);
	if (n < 0)
		return n;
	msg.msg_name = m->name ? &a : NULL;
	msg.msg_control = m->control_size ? m->control : NULL;
	msg.msg_controllen = m->control_size;
	transom_enter();
	n = sock_recvmsg(s->sock, &msg, flags | MSG_DONTWAIT);
	if (n >= 0) {
		if (m->name) {
			memcpy(m->name, &a, min_t(size_t, m->name_size, msg.msg_namelen));
			m->name_size = msg.msg_namelen;
		}
		m->control_size -= msg.msg_controllen;
		m->flags = msg.msg_flags;
	}
	return transom_leave(n);
}

/* What programs that only load a connection send: one piece of memory, however much it is. */
#define ZEROS_ORDER 4
#define ZEROS_SIZE (PAGE_SIZE << ZEROS_ORDER)

static struct page *zeros(void)
{
	static struct page *pages;

	if (!pages)
		pages = alloc_pages(GFP_KERNEL | __GFP_COMP | __GFP_ZERO, ZEROS_ORDER);
	return pages;
}

ssize_t linux_send_zeros(struct linux_socket *s, size_t size)
{
	struct msghdr msg = {.msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL | MSG_SPLICE_PAGES};
	size_t left = size, part;
	ssize_t n = -ENOMEM;
	struct bio_vec piece;

	/* Small writes lie one after the other: each would take one of a segment's 17 fragments. */
	if (size >= PAGE_SIZE)
		s->zeros_at = 0;
	transom_enter();
	while (left && zeros()) {
		part = min_t(size_t, left, ZEROS_SIZE - s->zeros_at);
		bvec_set_page(&piece, zeros(), part, s->zeros_at);
		iov_iter_bvec(&msg.msg_iter, ITER_SOURCE, &piece, 1, part);
		n = send_pages(s->sock, &msg);
		if (n > 0) {
			left -= n;
			s->zeros_at = (s->zeros_at + n) % ZEROS_SIZE;
		}
		if (n != part)
			break;
	}
	return transom_leave(left < size ? size - left : n);
}

ssize_t linux_discard(struct linux_socket *s, size_t size)
{
	struct msghdr msg = {};

	iov_iter_discard(&msg.msg_iter, ITER_DEST, size);
	transom_enter();
	return transom_leave(sock_recvmsg(s->sock, &msg, MSG_DONTWAIT | MSG_TRUNC));
}

int linux_setsockopt(struct linux_socket *s, int level, int name, const void *value, int size)
{
	transom_enter();
	return transom_leave(do_sock_setsockopt(s->sock, false, level, name,
						USER_SOCKPTR((void __user *)value), size));
}

int linux_getsockopt(struct linux_socket *s, int level, int name, void *value, int *size)
{
	transom_enter();
	return transom_leave(do_sock_getsockopt(s->sock, false, level, name,
						USER_SOCKPTR((void __user *)value),
						USER_SOCKPTR((void __user *)size)));
}

int linux_cwnd_clamp(struct linux_socket *s, u32 segments)
{
	if (!sk_is_tcp(s->sock->sk))
		return -ENOPROTOOPT;
	tcp_sk(s->sock->sk)->snd_cwnd_clamp = segments;
	return 0;
}

int linux_getsockname(struct linux_socket *s, void *address, int *size)
{
	struct sockaddr_storage a;
	int result;

	transom_enter();
	result = READ_ONCE(s->sock->ops)->getname(s->sock, (struct sockaddr *)&a, 0);
	return transom_leave(address_to(address, size, &a, result));
}

int linux_getpeername(struct linux_socket *s, void *address, int *size)
{
	struct sockaddr_storage a;
	int result;

	transom_enter();
	result = READ_ONCE(s->sock->ops)->getname(s->sock, (struct sockaddr *)&a, 1);
	return transom_leave(address_to(address, size, &a, result));
}

static int ask_device(struct net *net, unsigned int command, void __user *argument)
{
	void __user *data;
	struct ifreq request;
	bool copy_out;
	int error;

	if (_IOC_TYPE(command) != SOCK_IOC_TYPE)
		return -ENOTTY;
	if (get_user_ifreq(&request, &data, argument))
		return -EFAULT;
	error = dev_ioctl(net, command, &request, data, &copy_out);
	if (!error && copy_out && put_user_ifreq(&request, argument))
		error = -EFAULT;
	return error;
}

/* As sock_ioctl() of net/socket.c, which wants a file. */
static int request(struct socket *sock, unsigned int command, void __user *argument)
{
	const struct proto_ops *ops = READ_ONCE(sock->ops);
	struct net *net = sock_net(sock->sk);
	int result;

	switch (command) {
	case SIOCGSTAMP_OLD:
	case SIOCGSTAMP_NEW:
	case SIOCGSTAMPNS_OLD:
	case SIOCGSTAMPNS_NEW:
		if (!ops->gettstamp)
			return -ENOTTY;
		return ops->gettstamp(sock, argument,
				      command == SIOCGSTAMP_OLD || command == SIOCGSTAMP_NEW,
				      false);
	case SIOCGIFCONF:
		return dev_ifconf(net, argument);
	}
	result = ops->ioctl(sock, command, (unsigned long)argument);
	if (result == -ENOIOCTLCMD)
		result = ask_device(net, command, argument);
	return result == -ENOIOCTLCMD ? -ENOTTY : result;
}

int linux_ioctl(struct linux_socket *s, unsigned int command, void *argument)
{
	transom_enter();
	return transom_leave(request(s->sock, command, (void __user *)argument));
}

/* UDP asks its file whether a datagram is to be checked before it is announced: yes. */
u32 linux_poll(struct linux_socket *s)
{
	static struct file blocking;

	transom_enter();
	return transom_leave((__force u32)READ_ONCE(s->sock->ops)->poll(&blocking, s->sock, NULL));
}
