/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A table of small behaviours of sockets. Each runs in a process of its own and prints one line, so
 * one that hangs or is killed spoils no other. The same lines must come on the kernel itself and on
 * every stack that the supervisor serves.
 */
#pragma once
#ifdef MULTIPATH
#define _GNU_SOURCE
#include <netinet/in.h>
#include <sys/socket.h>

/* All TCP sockets become those of Multipath TCP, as `mptcpize` has it. */
static inline int multipath_socket(int domain, int kind, int protocol)
{
	if ((kind & 0xf) == SOCK_STREAM && (domain == AF_INET || domain == AF_INET6) &&
	    (protocol == 0 || protocol == IPPROTO_TCP))
		protocol = 262;
	return socket(domain, kind, protocol);
}
#define socket multipath_socket
#endif
#include "../sockets.h"
#include <net/if.h>
#include <linux/errqueue.h>
#include <linux/sockios.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/uio.h>

struct behaviour {
	const char *name;
	void (*run)(void);
};

#define BEHAVIOUR(name) {#name, name}
#define END {NULL, NULL}

extern const struct behaviour fresh[], connecting[], binding[], listening[], streaming[], closing[],
	messaging[], urgent[], datagrams[], datagram_errors[], options[], interfaces[];

/* Where the peer listens, TCP and UDP; nobody listens at the next port. */
extern struct sockaddr_in peer4;
extern struct sockaddr_in6 peer6;

/* What the peer does with a connection, asked for by the first byte on it. */
enum order {
	ECHO = 'e',
	SINK = 's',
	/* "hello" comes, then the peer waits for our end. */
	HELLO = 'w',
	CLOSE = 'c',
	RESET = 'r',
	HELLO_RESET = 'R',
	CLOSE_LATER = 'l',
	RESET_LATER = 'L',
	/* "hello" and FIN; what we send is counted, and the count is lost. */
	HALF = 'h',
	/* 10 bytes, after a while 25 more. */
	IN_PARTS = 't',
	/* "abc", the urgent byte 'u', "def". */
	SEND_URGENT = 'u',
	/* Says which urgent byte has come and what lay before it. */
	READ_URGENT = 'o',
	/* Reads nothing until we are gone. */
	DEAF = 'n',
	/* Our port follows as text with a newline: the peer connects to it and echoes. */
	COME_BACK = 'b',
};

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define TELL(call) say("%s", what(call))

struct sockaddr_in beside_peer(void);
int tcp(int flags);
int udp_socket(void);
int bound_udp(void);
int to_peer(enum order order);
int to(int fd, struct sockaddr_in address);
int so_error(int fd);
int fionread(int fd);
void nonblocking(int fd);
/* Says the events, once all of the wanted ones are there, at most 3 s later. */
void events(int fd, short wanted);
void pause_ms(int ms);
/* Says what a socket is named: "-" for an unspecified port or host, "own" and "peer" else. */
void say_name(int fd, int (*name)(int, struct sockaddr *, socklen_t *));
void echo(int fd);
int sigpipes(void);

int peer(const char *port, bool multipath);
