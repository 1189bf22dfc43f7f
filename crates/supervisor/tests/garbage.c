// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Makes socket calls with arguments by chance, good and bad, while signals interrupt it. Takes a
 * seed and how many calls; ends with 0 if it is still alive.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

static const long calls[] = {
	SYS_socket,	 SYS_bind,	  SYS_connect,	  SYS_listen,	  SYS_accept,	SYS_accept4,
	SYS_getsockname, SYS_getpeername, SYS_getsockopt, SYS_setsockopt, SYS_shutdown, SYS_sendto,
	SYS_sendmsg,	 SYS_sendmmsg,	  SYS_recvfrom,	  SYS_recvmsg,	  SYS_recvmmsg, SYS_write,
};

static uint64_t state;
/* What arguments point to: addresses, lengths, headers, all made of chance. */
static uint64_t memory[512];

static uint32_t chance(uint32_t below)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state >> 33) % below;
}

static long number(void)
{
	static const long numbers[] = {0, 1, 2, 3, 4, 6, 8, 10, 16, 17, 28, 64, 128, 1024, 65536};

	switch (chance(16)) {
	case 0:
		return -1;
	case 1:
		return (long)(state >> 7);
	default:
		return numbers[chance(sizeof(numbers) / sizeof(*numbers))];
	}
}

static long pointer(void)
{
	struct sockaddr_in *address = (struct sockaddr_in *)&memory[chance(400)];

	switch (chance(8)) {
	case 0:
		return 0;
	case 1:
		return 8;
	case 2:
	case 3:
		*address = (struct sockaddr_in){.sin_family = AF_INET};
		address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		address->sin_port = htons((uint16_t)(20000 + chance(8)));
		break;
	default:
		memory[chance(512)] = chance(2) ? (uint64_t)number() : (uint64_t)(uintptr_t)memory;
	}
	return (long)(uintptr_t)address;
}

static long argument(void)
{
	return chance(2) ? number() : pointer();
}

static long call(void)
{
	long nr = calls[chance(sizeof(calls) / sizeof(*calls))];

	if (nr == SYS_socket && chance(8)) {
		int kind = chance(2) ? SOCK_STREAM : SOCK_DGRAM;

		return syscall(nr, chance(4) ? AF_INET : AF_INET6,
			       kind | (chance(3) ? SOCK_NONBLOCK : 0), 0);
	}
	return syscall(nr, (long)(3 + chance(40)), argument(), argument(), argument(), argument(),
		       argument());
}

static void on_alarm(int signal)
{
	(void)signal;
}

int main(int count, char **arguments)
{
	struct itimerval often = {{.tv_usec = 2000}, {.tv_usec = 2000}};
	struct sigaction action = {.sa_handler = on_alarm};
	long left = count > 2 ? atol(arguments[2]) : 1000;

	state = count > 1 ? strtoull(arguments[1], NULL, 10) : 1;
	signal(SIGPIPE, SIG_IGN);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	while (left--) {
		call();
		if (chance(20) == 0)
			close((int)(3 + chance(40)));
		if (chance(500) == 0)
			close_range(3, 1000, 0);
	}
	return 0;
}
