// SPDX-License-Identifier: MIT OR Apache-2.0
/* The other side: a host's own kernel. A process for each connection. */
#include "behaviours.h"

static void until_end(int fd)
{
	char buffer[4096];

	while (read(fd, buffer, sizeof(buffer)) > 0)
		;
}

static void reset_it(int fd)
{
	struct linger now = {.l_onoff = 1};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(fd);
	_exit(0);
}

static void tell(int fd, const void *text, size_t len)
{
	if (write(fd, text, len) < 0)
		_exit(1);
}

static void send_back(int fd)
{
	char buffer[4096];
	ssize_t got;

	while ((got = read(fd, buffer, sizeof(buffer))) > 0)
		tell(fd, buffer, got);
}

static void come_back(int fd)
{
	char text[16] = "";
	struct sockaddr_in6 address;
	socklen_t len = sizeof(address);
	size_t at = 0;
	int other = socket(AF_INET6, SOCK_STREAM, 0);

	while (at < sizeof(text) - 1 && read(fd, text + at, 1) == 1 && text[at] != '\n')
		at++;
	getpeername(fd, (struct sockaddr *)&address, &len);
	address.sin6_port = htons(atoi(text));
	if (connect(other, (struct sockaddr *)&address, len))
		_exit(1);
	send_back(other);
}

static void read_urgent(int fd)
{
	struct pollfd at = {.fd = fd, .events = POLLPRI};
	char before[64] = "", byte = '-', text[96];
	int len = 0;

	poll(&at, 1, 3000);
	recv(fd, &byte, 1, MSG_OOB);
	len = read(fd, before, sizeof(before) - 1);
	len = snprintf(text, sizeof(text), "%c after '%.*s'", byte, len, before);
	tell(fd, text, len);
}

static void serve(int fd)
{
	char order = 0;

	if (read(fd, &order, 1) != 1)
		return;
	switch (order) {
	case ECHO:
		send_back(fd);
		break;
	case HELLO:
		tell(fd, "hello", 5);
		until_end(fd);
		break;
	case CLOSE:
		break;
	case RESET:
		reset_it(fd);
		break;
	case HELLO_RESET:
		tell(fd, "hello", 5);
		pause_ms(100);
		reset_it(fd);
		break;
	case CLOSE_LATER:
		pause_ms(100);
		break;
	case RESET_LATER:
		pause_ms(100);
		reset_it(fd);
		break;
	case HALF:
		tell(fd, "hello", 5);
		shutdown(fd, SHUT_WR);
		until_end(fd);
		break;
	case IN_PARTS:
		tell(fd, "0123456789", 10);
		pause_ms(200);
		tell(fd, "abcdefghijklmnopqrstuvwxy", 25);
		until_end(fd);
		break;
	case SEND_URGENT:
		tell(fd, "abc", 3);
		send(fd, "u", 1, MSG_OOB);
		tell(fd, "def", 3);
		until_end(fd);
		break;
	case READ_URGENT:
		read_urgent(fd);
		break;
	case DEAF:
		pause_ms(15000);
		break;
	case COME_BACK:
		come_back(fd);
		break;
	default:
		until_end(fd);
	}
}

/* Datagrams come back as they are. */
static void echo_datagrams(int fd)
{
	struct sockaddr_in6 from;
	char text[65536];

	for (;;) {
		socklen_t len = sizeof(from);
		ssize_t got = recvfrom(fd, text, sizeof(text), 0, (struct sockaddr *)&from, &len);

		if (got >= 0)
			sendto(fd, text, got, 0, (struct sockaddr *)&from, len);
	}
}

static int at_any(int kind, int protocol, int port)
{
	struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	int fd = socket(AF_INET6, kind, protocol), on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&any, sizeof(any))) {
		perror("bind");
		exit(1);
	}
	return fd;
}

int peer(const char *port, bool multipath)
{
	int from = at_any(SOCK_STREAM, multipath ? 262 : 0, atoi(port));
	int datagrams = at_any(SOCK_DGRAM, 0, atoi(port));

	signal(SIGCHLD, SIG_IGN);
	if (listen(from, 512))
		return 1;
	if (!fork())
		echo_datagrams(datagrams);
	printf("ready\n");
	for (;;) {
		int fd = accept(from, NULL, NULL);

		if (fd >= 0 && !fork()) {
			close(from);
			serve(fd);
			_exit(0);
		}
		close(fd);
	}
}
