// SPDX-License-Identifier: GPL-2.0
/*
 * The library without Rust: for machines that a test must be cross-built for.
 * Boots twice under a clock of its own and carries bytes over the loopback
 * interface, by TCP and MPTCP, over IPv4 and IPv6.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "../arch/include/library/linux.h"

#define MEMORY (64UL << 20)
#define TOTAL (10UL << 20)
#define CHUNK (64UL << 10)
#define PORT 4000

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif

#define EXPECT(condition)                                                                          \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static uint64_t now = 1;

static uint64_t fake_clock(void *host)
{
	return now;
}

static uint64_t fake_wall_clock(void *host)
{
	return 1767225600000000000ULL + now;
}

static void fake_wait(void *host, uint64_t until)
{
	if (until > now)
		now = until;
}

static void console(void *host, const char *text, size_t size)
{
	fwrite(text, 1, size, stderr);
}

static void stop(void *host, const char *why)
{
	fprintf(stderr, "%s\n", why);
	abort();
}

static unsigned long named;

static void socket_ready(void *host, uint64_t socket)
{
	named++;
}

static int nic_transmit(void *host, uint64_t nic, const struct linux_piece *pieces,
			unsigned int count, const struct linux_offload *offload)
{
	return 0;
}

static struct linux_host_ops ops = {
	.memory_size = MEMORY,
	.seed = {1, 2, 3},
	.clock = fake_clock,
	.wall_clock = fake_wall_clock,
	.wait = fake_wait,
	.console = console,
	.panic = stop,
	.socket_ready = socket_ready,
	.nic_transmit = nic_transmit,
};

/* Time goes on only here. */
static void turn(void)
{
	now += 1000000;
	linux_run();
}

/* RTM_NEWLINK for interface 1: up. */
static void loopback_up(void)
{
	struct {
		uint32_t size;
		uint16_t kind, flags;
		uint32_t sequence, port;
		uint8_t family, pad;
		uint16_t type;
		int32_t index;
		uint32_t link_flags, change;
	} request = {sizeof(request), 16, 5, 1, 0, 0, 0, 0, 1, IFF_UP, IFF_UP};
	struct linux_piece piece = {&request, sizeof(request)};
	struct linux_message message = {.pieces = &piece, .count = 1};
	struct linux_socket *netlink;

	EXPECT(!linux_socket(AF_NETLINK, SOCK_RAW, 0, 0, &netlink));
	EXPECT(linux_send(netlink, &message, 0) == sizeof(request));
	linux_close(netlink);
}

static int address_of(int family, struct sockaddr_storage *address)
{
	struct sockaddr_in6 *v6 = (void *)address;
	struct sockaddr_in *v4 = (void *)address;

	memset(address, 0, sizeof(*address));
	address->ss_family = family;
	if (family == AF_INET) {
		v4->sin_port = htons(PORT);
		v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		return sizeof(*v4);
	}
	v6->sin6_port = htons(PORT);
	v6->sin6_addr.s6_addr[15] = 1;
	return sizeof(*v6);
}

static unsigned char byte_at(size_t at)
{
	return at ^ at >> 8 ^ at >> 16;
}

static size_t send_some(struct linux_socket *s, size_t sent)
{
	static unsigned char data[CHUNK];
	size_t size = TOTAL - sent < CHUNK ? TOTAL - sent : CHUNK, i;
	struct linux_piece piece = {data, size};
	struct linux_message message = {.pieces = &piece, .count = 1};
	ssize_t n;

	for (i = 0; i < size; i++)
		data[i] = byte_at(sent + i);
	n = linux_send(s, &message, 0);
	EXPECT(n >= 0 || n == -EAGAIN);
	return n < 0 ? 0 : n;
}

static size_t receive_some(struct linux_socket *s, size_t received)
{
	static unsigned char data[CHUNK];
	struct linux_piece piece = {data, sizeof(data)};
	struct linux_message message = {.pieces = &piece, .count = 1};
	ssize_t n = linux_receive(s, &message, 0), i;

	EXPECT(n >= 0 || n == -EAGAIN);
	for (i = 0; i < n; i++)
		EXPECT(data[i] == byte_at(received + i));
	return n < 0 ? 0 : n;
}

static void carry(int family, int protocol)
{
	struct linux_socket *listener, *client, *server;
	size_t sent = 0, received = 0, turns;
	struct sockaddr_storage address;
	int size = address_of(family, &address);

	EXPECT(!linux_socket(family, SOCK_STREAM, protocol, 1, &listener));
	EXPECT(!linux_bind(listener, &address, size));
	EXPECT(!linux_listen(listener, 8));
	EXPECT(linux_accept(listener, 2, &server) == -EAGAIN);
	EXPECT(!linux_socket(family, SOCK_STREAM, protocol, 3, &client));
	EXPECT(linux_connect(client, &address, size) == -EINPROGRESS);
	turn();
	EXPECT(!linux_accept(listener, 2, &server));
	for (turns = 0; received < TOTAL; turns++) {
		EXPECT(turns < 100000);
		sent += sent < TOTAL ? send_some(client, sent) : 0;
		turn();
		received += receive_some(server, received);
	}
	linux_close(client);
	linux_close(server);
	linux_close(listener);
	turn();
}

int main(void)
{
	int boot;

	ops.memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	EXPECT(ops.memory != MAP_FAILED);
	for (boot = 0; boot < 2; boot++) {
		EXPECT(!linux_boot(&ops, "loglevel=4"));
		EXPECT(linux_boot(&ops, "") == -EBUSY);
		loopback_up();
		turn();
		carry(AF_INET, IPPROTO_TCP);
		carry(AF_INET6, IPPROTO_TCP);
		carry(AF_INET, IPPROTO_MPTCP);
		EXPECT(named > 0);
		linux_halt();
		memset(ops.memory, 0, MEMORY);
	}
	printf("ok: 2 boots, %lu MiB by TCP over IPv4 and IPv6 and by MPTCP\n",
	       2 * 3 * TOTAL >> 20);
	return 0;
}
