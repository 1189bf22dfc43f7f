// SPDX-License-Identifier: MIT OR Apache-2.0
/* What a socket does before it was connected, bound or listening, and which there are. */
#include "behaviours.h"

static void fresh_poll(void)
{
	events(tcp(0), 0);
}

static void fresh_epoll(void)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLOUT};
	int set = epoll_create1(0), fd = tcp(0);

	epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
	TELL(epoll_wait(set, &event, 1, 1000));
	say("%x", event.events);
	to(fd, peer4);
	TELL(epoll_wait(set, &event, 1, 1000));
	say("%x", event.events);
}

static void fresh_read(void)
{
	char byte;

	TELL(read(tcp(0), &byte, 1));
}

static void fresh_recv_nonblocking(void)
{
	char byte;

	TELL(recv(tcp(SOCK_NONBLOCK), &byte, 1, 0));
}

static void fresh_recvmsg(void)
{
	struct iovec piece = {(char[1]){0}, 1};
	struct msghdr header = {.msg_iov = &piece, .msg_iovlen = 1};

	TELL(recvmsg(tcp(0), &header, 0));
}

static void fresh_write(void)
{
	TELL(write(tcp(0), "x", 1));
	say("SIGPIPE %d", sigpipes());
}

static void fresh_sendto_with_address(void)
{
	int fd = tcp(0);

	TELL(sendto(fd, "x", 1, MSG_NOSIGNAL, (struct sockaddr *)&peer4, sizeof(peer4)));
	say("SIGPIPE %d", sigpipes());
	TELL(sendto(fd, "x", 1, 0, (struct sockaddr *)&peer4, sizeof(peer4)));
	pause_ms(10);
	say("SIGPIPE %d", sigpipes());
}

static void fresh_sendmsg(void)
{
	struct iovec piece = {"x", 1};
	struct msghdr header = {.msg_iov = &piece, .msg_iovlen = 1};

	TELL(sendmsg(tcp(0), &header, MSG_NOSIGNAL));
}

static void fresh_names(void)
{
	int fd = tcp(0);

	say_name(fd, getsockname);
	say_name(fd, getpeername);
}

static void fresh_shutdown(void)
{
	int fd = tcp(0);

	TELL(shutdown(fd, SHUT_WR));
	TELL(shutdown(fd, SHUT_RD));
	TELL(shutdown(fd, SHUT_RDWR));
	TELL(shutdown(fd, 7));
}

static void fresh_accept(void)
{
	TELL(accept(tcp(0), NULL, NULL));
}

static void fresh_queues(void)
{
	int fd = tcp(0), bytes = -1;

	say("%d", fionread(fd));
	TELL(ioctl(fd, SIOCOUTQ, &bytes));
	say("%d", bytes);
}

static void socket_arguments(void)
{
	TELL(socket(AF_INET, 99, 0));
	TELL(socket(AF_INET, SOCK_STREAM, IPPROTO_UDP));
	TELL(socket(AF_INET, SOCK_DGRAM, IPPROTO_TCP));
	TELL(socket(AF_INET, SOCK_STREAM | 0x10000, 0));
	TELL(socket(AF_INET, SOCK_SEQPACKET, 0));
}
const struct behaviour fresh[] = {
	BEHAVIOUR(fresh_poll),
	BEHAVIOUR(fresh_epoll),
	BEHAVIOUR(fresh_read),
	BEHAVIOUR(fresh_recv_nonblocking),
	BEHAVIOUR(fresh_recvmsg),
	BEHAVIOUR(fresh_write),
	BEHAVIOUR(fresh_sendto_with_address),
	BEHAVIOUR(fresh_sendmsg),
	BEHAVIOUR(fresh_names),
	BEHAVIOUR(fresh_shutdown),
	BEHAVIOUR(fresh_accept),
	BEHAVIOUR(fresh_queues),
	BEHAVIOUR(socket_arguments),
	END,
};
