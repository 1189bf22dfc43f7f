/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * For programs that do with sockets what programs do, and print what they see. The same must be
 * printed on the kernel itself and under the supervisor: that is the test.
 */
#pragma once
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static inline const char *what(long result)
{
	static char text[4][32];
	static int turn;
	char *at = text[turn++ % 4];

	if (result >= 0)
		snprintf(at, 32, "%ld", result);
	else
		snprintf(at, 32, "%s", strerrorname_np(errno));
	return at;
}

#define SAY(call) printf("  %s = %s\n", #call, what(call))

static inline struct sockaddr_in loopback(int port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return address;
}

static inline int port_of(int fd)
{
	struct sockaddr_in address;
	socklen_t len = sizeof(address);

	if (getsockname(fd, (struct sockaddr *)&address, &len))
		return -1;
	return ntohs(address.sin_port);
}

static inline int listener(int flags)
{
	struct sockaddr_in address = loopback(0);
	int fd = socket(AF_INET, SOCK_STREAM | flags, 0);

	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 512))
		printf("  no listener: %s\n", strerrorname_np(errno));
	return fd;
}

static inline int connect_to(int fd, int port)
{
	struct sockaddr_in address = loopback(port);

	return connect(fd, (struct sockaddr *)&address, sizeof(address));
}

/* A connection: one end by connect, the other by accept. */
static inline void connected(int *client, int *server)
{
	int from = listener(0);

	*client = socket(AF_INET, SOCK_STREAM, 0);
	if (connect_to(*client, port_of(from)))
		printf("  not connected: %s\n", strerrorname_np(errno));
	*server = accept(from, NULL, NULL);
	close(from);
}

/* Waits until the descriptor shows all of these events, at most 5 s, and prints which it shows. */
static inline void see(const char *when, int fd, short wanted)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP};
	int i;

	for (i = 0; i < 5000; i++) {
		poll(&poll_fd, 1, 0);
		if ((poll_fd.revents & wanted) == wanted)
			break;
		usleep(1000);
	}
	printf("  %s:%s%s%s%s%s\n", when, poll_fd.revents & POLLIN ? " in" : "",
	       poll_fd.revents & POLLOUT ? " out" : "", poll_fd.revents & POLLRDHUP ? " rdhup" : "",
	       poll_fd.revents & POLLERR ? " err" : "", poll_fd.revents & POLLHUP ? " hup" : "");
}

#define RUN(part) (printf("%s\n", #part), part(), fflush(stdout))

static inline void begin(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGPIPE, SIG_IGN);
}
