// SPDX-License-Identifier: MIT OR Apache-2.0
/* Calls that a signal interrupts a thousand times a second: each is carried out once. */
#include "sockets.h"
#include <stdint.h>

enum { ROUNDS = 3000, WORDS = 400000, NUMBERS = 6000 };

static void on_alarm(int signal)
{
	(void)signal;
}

static void alarms(int flags, int micros)
{
	struct sigaction action = {.sa_handler = on_alarm, .sa_flags = flags};
	struct itimerval every = {{0, micros}, {0, micros}};

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
}

/* Each signal ends a wait: at most so many, of at most so many milliseconds. */
static void wait_for(int fd, short events, int most)
{
	struct pollfd at = {.fd = fd, .events = events};
	int i;

	for (i = 0; i < most && poll(&at, 1, most) < 0 && errno == EINTR; i++)
		;
}

static void refusals(void)
{
	int i, connects = 0, errors = 0;

	alarms(SA_RESTART, 1000);
	for (i = 0; i < ROUNDS; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), error = 0;
		socklen_t len = sizeof(error);

		connects += connect_to(fd, 1) < 0 && errno == EINPROGRESS;
		wait_for(fd, POLLOUT, 5000);
		errors += !getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) &&
			  error == ECONNREFUSED;
		close(fd);
	}
	alarms(SA_RESTART, 0);
	printf("  began to connect %d\n  were refused %d\n", connects, errors);
}

static void write_numbers(int fd)
{
	static uint32_t words[WORDS];
	char *at = (char *)words, *end = at + sizeof(words);
	uint32_t i;

	for (i = 0; i < WORDS; i++)
		words[i] = i;
	while (at < end)
		at += write(fd, at, end - at);
	_exit(0);
}

/* Reads with an address, which nobody needs of a stream, into a buffer that is cleared each time. */
static void read_numbers(int flags)
{
	int client, server, wrong = 0;
	uint32_t words[250], next = 0;
	pid_t child;

	connected(&client, &server);
	child = fork();
	if (!child)
		write_numbers(server);
	close(server);
	alarms(flags, 1000);
	while (next < WORDS) {
		struct sockaddr_in from;
		socklen_t len = sizeof(from);
		ssize_t got, i;

		memset(words, 0xff, sizeof(words));
		got = recvfrom(client, words, sizeof(words), MSG_WAITALL, (struct sockaddr *)&from,
			       &len);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		for (i = 0; i < got / 4; i++)
			wrong += words[i] != next++;
		if (got % 4)
			printf("  a part of a word\n");
	}
	alarms(flags, 0);
	waitpid(child, NULL, 0);
	close(client);
	printf("  words %u, of them out of order %d\n", next, wrong);
}

static void stream_and_restart(void)
{
	read_numbers(SA_RESTART);
}

static void stream_and_repeat(void)
{
	read_numbers(0);
}

static int receiver(struct sockaddr_in *address)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	*address = loopback(0);
	bind(fd, (struct sockaddr *)address, sizeof(*address));
	*address = loopback(port_of(fd));
	return fd;
}

static void datagrams_and_restart(void)
{
	struct sockaddr_in address, from;
	int to = receiver(&address), fd = socket(AF_INET, SOCK_DGRAM, 0), right = 0;
	struct timeval patience = {5, 0};
	uint32_t i, got;

	setsockopt(to, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	alarms(SA_RESTART, 1000);
	for (i = 0; i < NUMBERS; i++) {
		socklen_t len = sizeof(from);

		sendto(fd, &i, sizeof(i), 0, (struct sockaddr *)&address, sizeof(address));
		wait_for(to, POLLIN, 5000);
		right += recvfrom(to, &got, sizeof(got), MSG_DONTWAIT, (struct sockaddr *)&from,
				  &len) == sizeof(got) &&
			 got == i;
	}
	alarms(SA_RESTART, 0);
	printf("  in order %d\n", right);
	close(to);
	close(fd);
}

/* What could not be sent is given up, and the next one goes from the same place. */
static void datagrams_given_up(void)
{
	static char sent[NUMBERS], arrived[NUMBERS];
	struct sockaddr_in address;
	int to = receiver(&address), fd = socket(AF_INET, SOCK_DGRAM, 0), lost = 0;
	uint32_t i, got;

	alarms(0, 1000);
	for (i = 0; i < NUMBERS; i++) {
		sent[i] = sendto(fd, &i, sizeof(i), 0, (struct sockaddr *)&address,
				 sizeof(address)) == sizeof(i);
		if (sent[i])
			wait_for(to, POLLIN, 100);
		while (recv(to, &got, sizeof(got), MSG_DONTWAIT) == sizeof(got))
			arrived[got] = 1;
	}
	alarms(0, 0);
	usleep(100000);
	while (recv(to, &got, sizeof(got), MSG_DONTWAIT) == sizeof(got))
		arrived[got] = 1;
	for (i = 0; i < NUMBERS; i++)
		lost += sent[i] && !arrived[i];
	printf("  sent and lost %d\n", lost);
	close(to);
	close(fd);
}

static void memberships(void)
{
	struct ip_mreqn group = {.imr_ifindex = 1};
	int fd = socket(AF_INET, SOCK_DGRAM, 0), i, joined = 0, left = 0;

	group.imr_multiaddr.s_addr = htonl(0xef010203);
	alarms(SA_RESTART, 1000);
	for (i = 0; i < ROUNDS; i++) {
		joined += !setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof(group));
		left += !setsockopt(fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &group, sizeof(group));
	}
	alarms(SA_RESTART, 0);
	printf("  joined %d, left %d\n", joined, left);
	close(fd);
}

int main(void)
{
	begin();
	RUN(refusals);
	RUN(stream_and_restart);
	RUN(stream_and_repeat);
	RUN(datagrams_and_restart);
	RUN(datagrams_given_up);
	RUN(memberships);
	return 0;
}
