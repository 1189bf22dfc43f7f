// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * behaviours PEER4 PEER6 PORT     prints the table
 * behaviours peer PORT [mptcp]    the other side, on another host
 */
#include "behaviours.h"
#include <time.h>

enum { PATIENCE_MS = 20000 };

struct sockaddr_in peer4 = {.sin_family = AF_INET};
struct sockaddr_in6 peer6 = {.sin6_family = AF_INET6};

static volatile sig_atomic_t pipes;

static void pipe_broke(int signal)
{
	(void)signal;
	pipes++;
}

int sigpipes(void)
{
	return pipes;
}

void say(const char *format, ...)
{
	char text[256];
	va_list arguments;
	int len;

	va_start(arguments, format);
	text[0] = ' ';
	len = vsnprintf(text + 1, sizeof(text) - 1, format, arguments) + 1;
	va_end(arguments);
	if (write(STDOUT_FILENO, text, len < 256 ? len : 255) < 0)
		_exit(3);
}

struct sockaddr_in beside_peer(void)
{
	struct sockaddr_in address = peer4;

	address.sin_port = htons(ntohs(peer4.sin_port) + 1);
	return address;
}

int tcp(int flags)
{
	return socket(AF_INET, SOCK_STREAM | flags, 0);
}

int udp_socket(void)
{
	return socket(AF_INET, SOCK_DGRAM, 0);
}

int bound_udp(void)
{
	struct sockaddr_in address = loopback(0);
	int fd = udp_socket();

	if (bind(fd, (struct sockaddr *)&address, sizeof(address)))
		say("not bound: %s", strerrorname_np(errno));
	return fd;
}

int to(int fd, struct sockaddr_in address)
{
	return connect(fd, (struct sockaddr *)&address, sizeof(address));
}

int to_peer(enum order order)
{
	int fd = tcp(0);
	char byte = order;

	if (to(fd, peer4))
		say("not connected: %s", strerrorname_np(errno));
	if (write(fd, &byte, 1) != 1)
		say("no order: %s", strerrorname_np(errno));
	return fd;
}

int so_error(int fd)
{
	int error = -1;
	socklen_t len = sizeof(error);

	getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
	return error;
}

int fionread(int fd)
{
	int bytes = -1;

	return ioctl(fd, FIONREAD, &bytes) ? -1 : bytes;
}

void nonblocking(int fd)
{
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

void pause_ms(int ms)
{
	usleep(ms * 1000);
}

void events(int fd, short wanted)
{
	struct pollfd at = {.fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP | POLLPRI};
	int i;

	for (i = 0; i < 3000; i++) {
		poll(&at, 1, 0);
		if ((at.revents & wanted) == wanted)
			break;
		usleep(1000);
	}
	say("[%s%s%s%s%s%s]", at.revents & POLLIN ? "i" : "", at.revents & POLLPRI ? "p" : "",
	    at.revents & POLLOUT ? "o" : "", at.revents & POLLRDHUP ? "r" : "",
	    at.revents & POLLERR ? "e" : "", at.revents & POLLHUP ? "h" : "");
}

void say_name(int fd, int (*name)(int, struct sockaddr *, socklen_t *))
{
	struct sockaddr_in address;
	socklen_t len = sizeof(address);

	if (name(fd, (struct sockaddr *)&address, &len)) {
		say("%s", strerrorname_np(errno));
		return;
	}
	say("%d %s %s", len, address.sin_addr.s_addr ? inet_ntoa(address.sin_addr) : "-",
	    !address.sin_port			 ? "-"
	    : address.sin_port == peer4.sin_port ? "peer"
						 : "own");
}

void echo(int fd)
{
	char text[8] = "";

	if (write(fd, "echo", 4) != 4 || recv(fd, text, 4, MSG_WAITALL) != 4)
		say("no echo: %s", strerrorname_np(errno));
	else
		say("%s", text);
}

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* In a group of its own, so that nothing of it is left. */
static pid_t start(const struct behaviour *behaviour, int out)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	setpgid(0, 0);
	dup2(out, STDOUT_FILENO);
	signal(SIGPIPE, pipe_broke);
	behaviour->run();
	_exit(0);
}

static void run(const struct behaviour *behaviour)
{
	long end = now_ms() + PATIENCE_MS;
	int ends[2], status = 0;
	char text[4096];
	ssize_t got;
	pid_t pid;

	if (pipe(ends))
		exit(3);
	printf("%s:", behaviour->name);
	fflush(stdout);
	pid = start(behaviour, ends[1]);
	close(ends[1]);
	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (now_ms() > end) {
			printf(" HANGS");
			kill(-pid, SIGKILL);
			waitpid(pid, &status, 0);
			status = 0;
			break;
		}
		usleep(500);
	}
	kill(-pid, SIGKILL);
	while ((got = read(ends[0], text, sizeof(text))) > 0)
		printf("%.*s", (int)got, text);
	close(ends[0]);
	if (WIFSIGNALED(status))
		printf(" SIG%s", sigabbrev_np(WTERMSIG(status)));
	else if (WEXITSTATUS(status))
		printf(" EXIT %d", WEXITSTATUS(status));
	printf("\n");
}

int main(int count, char **words)
{
	const struct behaviour *tables[] = {fresh,     connecting,	binding,   listening,
					    streaming, closing,		messaging, urgent,
					    datagrams, datagram_errors, options,   interfaces};
	size_t i;

	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGPIPE, SIG_IGN);
	if (count >= 3 && !strcmp(words[1], "peer"))
		return peer(words[2], count > 3);
	if (count < 4 || !inet_pton(AF_INET, words[1], &peer4.sin_addr) ||
	    !inet_pton(AF_INET6, words[2], &peer6.sin6_addr)) {
		fprintf(stderr, "behaviours PEER4 PEER6 PORT [NAME]\n");
		return 2;
	}
	peer4.sin_port = peer6.sin6_port = htons(atoi(words[3]));
	for (i = 0; i < sizeof(tables) / sizeof(*tables); i++)
		for (const struct behaviour *at = tables[i]; at->name; at++)
			if (count == 4 || strstr(at->name, words[4]))
				run(at);
	return 0;
}
