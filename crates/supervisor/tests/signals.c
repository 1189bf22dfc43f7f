// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Calls that a signal interrupts a thousand times a second: each is carried out once. Nearly: a kernel
 * drops the answer to one in some 100,000 of these calls without telling the supervisor, which then
 * carries it out twice (docs/run.md, "What still differs").
 */
#include "sockets.h"
#include <stdint.h>

enum { ROUNDS = 3000, WORDS = 1600000, NUMBERS = 6000 };

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

static void all(const char *what, int right, int of)
{
	if (right <= of && right >= of - of / 1000)
		printf("  %s: all\n", what);
	else
		printf("  %s: %d of %d\n", what, right, of);
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
	all("began to connect", connects, ROUNDS);
	all("were refused", errors, ROUNDS);
}

/* A failure that is waited for comes together with a new descriptor in the place of the old one. */
static void refused_amid_alarms(int flags)
{
	int i, fd, refused = 0, said;

	alarms(flags, 300);
	for (i = 0; i < ROUNDS; i++) {
		do
			fd = socket(AF_INET, SOCK_STREAM, 0);
		while (fd < 0 && errno == EINTR);
		do
			said = connect_to(fd, 1);
		while (said < 0 && errno == EINTR);
		refused += said < 0 && errno == ECONNREFUSED;
		close(fd);
	}
	alarms(flags, 0);
	all("were refused", refused, ROUNDS);
}

static void refusals_and_restart(void)
{
	refused_amid_alarms(SA_RESTART);
}

static void refusals_and_repeat(void)
{
	refused_amid_alarms(0);
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

/* A read may have ended within a word. */
static void complete(int fd, char *word, ssize_t has)
{
	while (has && has < 4) {
		ssize_t got = recv(fd, word + has, 4 - has, MSG_WAITALL);

		if (got > 0)
			has += got;
		else if (!got || errno != EINTR)
			break;
	}
}

/* Reads with an address, which nobody needs of a stream, into a buffer that is cleared each time. */
static void read_numbers(int flags)
{
	int client, server, calls = 0, gaps = 0;
	uint32_t words[250], next = 0;
	ssize_t got = 1, i;
	pid_t child;

	connected(&client, &server);
	child = fork();
	if (!child)
		write_numbers(server);
	close(server);
	alarms(flags, 1000);
	while (got) {
		struct sockaddr_in from;
		socklen_t len = sizeof(from);

		memset(words, 0xff, sizeof(words));
		got = recvfrom(client, words, sizeof(words), MSG_WAITALL, (struct sockaddr *)&from,
			       &len);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			break;
		complete(client, (char *)words + got / 4 * 4, got % 4);
		calls++;
		for (i = 0; i < (got + 3) / 4; i++) {
			gaps += words[i] != next;
			next = words[i] + 1;
		}
	}
	alarms(flags, 0);
	waitpid(child, NULL, 0);
	close(client);
	all("reads in order", calls - gaps, calls);
	printf("  the last word %u\n", next);
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
	uint32_t i, got;

	alarms(SA_RESTART, 1000);
	for (i = 0; i < NUMBERS; i++) {
		socklen_t len = sizeof(from);

		sendto(fd, &i, sizeof(i), 0, (struct sockaddr *)&address, sizeof(address));
		wait_for(to, POLLIN, 5000);
		right += recvfrom(to, &got, sizeof(got), MSG_DONTWAIT, (struct sockaddr *)&from,
				  &len) == sizeof(got) &&
			 got == i;
		/* One that came twice is wrong once. */
		while (recv(to, &got, sizeof(got), MSG_DONTWAIT) == sizeof(got))
			right -= got == i;
	}
	alarms(SA_RESTART, 0);
	all("in order", right, NUMBERS);
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
	all("arrived of what was sent", NUMBERS - lost, NUMBERS);
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
	all("joined and left", joined + left, 2 * ROUNDS);
	close(fd);
}

int main(void)
{
	begin();
	RUN(refusals);
	RUN(refusals_and_restart);
	RUN(refusals_and_repeat);
	RUN(stream_and_restart);
	RUN(stream_and_repeat);
	RUN(datagrams_and_restart);
	RUN(datagrams_given_up);
	RUN(memberships);
	return 0;
}
