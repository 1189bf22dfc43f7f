// SPDX-License-Identifier: MIT OR Apache-2.0
/* A connection that stands: bytes, queues, copies of its descriptor. */
#include "behaviours.h"

static void bytes_of_no_length(void)
{
	int fd = to_peer(HELLO);
	char text[8];

	TELL(write(fd, "", 0));
	TELL(send(fd, "", 0, 0));
	TELL(read(fd, text, 0));
	events(fd, POLLIN);
	TELL(read(fd, text, 0));
	TELL(recv(fd, text, 0, MSG_PEEK));
	TELL(read(fd, text, 8));
}

static void bytes_unread(void)
{
	int fd = to_peer(HELLO);
	char text[8];

	events(fd, POLLIN);
	say("%d", fionread(fd));
	TELL(read(fd, text, 2));
	say("%d", fionread(fd));
}

static void bytes_unsent(void)
{
	int fd = to_peer(SINK), bytes = -1;

	TELL(write(fd, "some", 4));
	pause_ms(200);
	TELL(ioctl(fd, SIOCOUTQ, &bytes));
	say("%d", bytes);
	TELL(ioctl(fd, SIOCOUTQNSD, &bytes));
	say("%d", bytes);
}

static void bytes_unacknowledged(void)
{
	static char much[1 << 20];
	int fd = to_peer(DEAF), bytes = 0;
	long written = 0, before, got;

	nonblocking(fd);
	/* The peer's window may still grow. */
	do {
		before = written;
		while ((got = write(fd, much, sizeof(much))) > 0)
			written += got;
		pause_ms(200);
	} while (written > before);
	TELL(got);
	events(fd, 0);
	ioctl(fd, SIOCOUTQ, &bytes);
	/* With the order. */
	say("%d", bytes > 0 && bytes <= written + 1);
}

/* All that a connection takes whose peer reads nothing. */
static long filled(int fd)
{
	static char much[1 << 20];
	long got, all = 0;

	nonblocking(fd);
	for (int pauses = 0; pauses < 5; pauses++) {
		while ((got = write(fd, much, sizeof(much))) > 0)
			all += got;
		pause_ms(50);
	}
	TELL(got);
	return all;
}

static int unsent(int fd)
{
	int bytes = -1;

	ioctl(fd, SIOCOUTQNSD, &bytes);
	return bytes;
}

/* The kernel doubles what it is told. */
static void small_send_buffer(void)
{
	int fd = tcp(0), size = 32768;
	char order = DEAF;

	TELL(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)));
	to(fd, peer4);
	if (write(fd, &order, 1) != 1)
		return;
	filled(fd);
	say("%d", unsent(fd) > size / 2 && unsent(fd) < 6 * size);
}

static void small_send_buffer_later(void)
{
	int fd = to_peer(DEAF), size = 32768;

	pause_ms(50);
	TELL(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)));
	filled(fd);
	say("%d", unsent(fd) > size / 2 && unsent(fd) < 6 * size);
}

static void small_receive_buffer(void)
{
	int from = tcp(0), client = tcp(0), size = 32768;
	struct sockaddr_in address = loopback(0);

	TELL(setsockopt(from, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)));
	TELL(setsockopt(client, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)));
	bind(from, (struct sockaddr *)&address, sizeof(address));
	listen(from, 1);
	TELL(connect_to(client, port_of(from)));
	say("%d", accept(from, NULL, NULL) > 0);
	say("%d", filled(client) < 12 * size);
}

static void little_unsent(void)
{
	int fd = to_peer(DEAF), limit = 32768;

	TELL(setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &limit, sizeof(limit)));
	filled(fd);
	say("%d", unsent(fd) < 6 * limit);
}

static void write_with_a_timeout(void)
{
	static char much[16 << 20];
	struct timeval limit = {.tv_usec = 200000};
	int fd = to_peer(DEAF);
	long got;

	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	while ((got = write(fd, much, sizeof(much))) > 0)
		;
	TELL(got);
}

static void read_with_a_timeout(void)
{
	struct timeval limit = {.tv_usec = 50000};
	int fd = to_peer(SINK);
	char byte;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	TELL(read(fd, &byte, 1));
	TELL(recv(fd, &byte, 1, MSG_WAITALL));
	TELL(recv(fd, &byte, 1, MSG_DONTWAIT));
}

static void low_water_mark(void)
{
	int fd = to_peer(IN_PARTS), mark = 35;
	char text[64];

	TELL(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof(mark)));
	/* Who has read a part of it may wait for ever: the rest alone is below the mark. */
	events(fd, POLLIN);
	TELL(read(fd, text, sizeof(text)));
}

static void low_water_mark_in_poll(void)
{
	int fd = to_peer(IN_PARTS), mark = 35;
	char text[64];

	TELL(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof(mark)));
	pause_ms(100);
	events(fd, 0);
	/* Who reads without asking gets what is there. */
	TELL(recv(fd, text, sizeof(text), MSG_DONTWAIT));
}

static void nonblocking_by_ioctl(void)
{
	int fd = to_peer(SINK), on = 1;
	char byte;

	TELL(ioctl(fd, FIONBIO, &on));
	TELL(read(fd, &byte, 1));
	say("%d", (fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
}

static void level_and_edge(void)
{
	struct epoll_event level = {.events = EPOLLIN}, edge = {.events = EPOLLIN | EPOLLET};
	int fd = to_peer(ECHO), levels = epoll_create1(0), edges = epoll_create1(0);
	char byte;

	epoll_ctl(levels, EPOLL_CTL_ADD, fd, &level);
	epoll_ctl(edges, EPOLL_CTL_ADD, fd, &edge);
	TELL(write(fd, "ab", 2));
	events(fd, POLLIN);
	TELL(epoll_wait(levels, &level, 1, 1000));
	TELL(epoll_wait(edges, &edge, 1, 1000));
	TELL(read(fd, &byte, 1));
	TELL(epoll_wait(levels, &level, 1, 50));
	TELL(epoll_wait(edges, &edge, 1, 50));
	TELL(write(fd, "c", 1));
	TELL(epoll_wait(edges, &edge, 1, 1000));
}

static void one_shot(void)
{
	struct epoll_event event = {.events = EPOLLOUT | EPOLLONESHOT};
	int fd = to_peer(ECHO), set = epoll_create1(0);

	epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
	TELL(epoll_wait(set, &event, 1, 1000));
	TELL(epoll_wait(set, &event, 1, 50));
	event.events = EPOLLOUT | EPOLLONESHOT;
	epoll_ctl(set, EPOLL_CTL_MOD, fd, &event);
	TELL(epoll_wait(set, &event, 1, 1000));
}

static void copies_share_one_connection(void)
{
	int fd = to_peer(ECHO), copy = dup(fd);

	close(fd);
	echo(copy);
	TELL(dup2(copy, 100));
	close(copy);
	echo(100);
}

static void a_child_s_copy_keeps_it_open(void)
{
	int fd = to_peer(ECHO), ends[2];
	char byte;

	if (pipe(ends))
		return;
	if (!fork()) {
		close(ends[1]);
		(void)!read(ends[0], &byte, 1);
		echo(fd);
		_exit(0);
	}
	close(fd);
	pause_ms(20);
	close(ends[1]);
	wait(NULL);
}

static void closed_on_exec(void)
{
	int keep = tcp(0), cut = tcp(SOCK_CLOEXEC);
	char script[96];

	snprintf(
		script, sizeof(script),
		"[ -e /proc/self/fd/%d ]; echo -n \" $?\"; [ -e /proc/self/fd/%d ]; echo -n \" $?\"",
		keep, cut);
	if (!fork())
		execlp("sh", "sh", "-c", script, NULL);
	wait(NULL);
}

static void is_a_socket(void)
{
	struct stat stat;
	int fd = to_peer(SINK);

	TELL(fstat(fd, &stat));
	say("%d", S_ISSOCK(stat.st_mode) != 0);
	TELL(lseek(fd, 0, SEEK_SET));
	TELL(fcntl(fd, F_GETFL) & O_ACCMODE);
	TELL(ftruncate(fd, 1));
}

static void from_a_file(void)
{
	char path[] = "/tmp/transom-behaviours-XXXXXX", text[16] = "";
	int file = mkstemp(path), fd = to_peer(ECHO);

	unlink(path);
	if (write(file, "from a file", 11) != 11)
		return;
	TELL(sendfile(fd, file, &(off_t){0}, 11));
	TELL(recv(fd, text, 11, MSG_WAITALL));
	say("%s", text);
}

static void through_pipes(void)
{
	int fd = to_peer(ECHO), ends[2];
	char text[16] = "";

	if (pipe(ends) || write(ends[1], "spliced", 7) != 7)
		return;
	TELL(splice(ends[0], NULL, fd, NULL, 7, 0));
	events(fd, POLLIN);
	TELL(splice(fd, NULL, ends[1], NULL, 7, 0));
	TELL(read(ends[0], text, sizeof(text)));
	say("%s", text);
}

static void signal_of_input(void)
{
	int fd = to_peer(ECHO);
	sigset_t set;
	struct timespec limit = {.tv_sec = 2};

	sigemptyset(&set);
	sigaddset(&set, SIGIO);
	sigprocmask(SIG_BLOCK, &set, NULL);
	TELL(fcntl(fd, F_SETOWN, getpid()));
	TELL(fcntl(fd, F_SETFL, O_ASYNC | O_RDWR));
	TELL(write(fd, "x", 1));
	say("%d", sigtimedwait(&set, NULL, &limit) == SIGIO);
}

static void much_there_and_back(void)
{
	static char out[1 << 20], in[1 << 20];
	int fd = to_peer(ECHO);
	size_t i;

	for (i = 0; i < sizeof(out); i++)
		out[i] = i * 7 + (i >> 8);
	if (!fork()) {
		long sent = 0;

		while (sent < (long)sizeof(out))
			sent += write(fd, out + sent, sizeof(out) - sent);
		_exit(0);
	}
	TELL(recv(fd, in, sizeof(in), MSG_WAITALL));
	say("%d", !memcmp(in, out, sizeof(in)));
}

const struct behaviour streaming[] = {
	BEHAVIOUR(bytes_of_no_length),
	BEHAVIOUR(bytes_unread),
	BEHAVIOUR(bytes_unsent),
	BEHAVIOUR(bytes_unacknowledged),
	BEHAVIOUR(small_send_buffer),
	BEHAVIOUR(small_send_buffer_later),
	BEHAVIOUR(small_receive_buffer),
	BEHAVIOUR(little_unsent),
	BEHAVIOUR(write_with_a_timeout),
	BEHAVIOUR(read_with_a_timeout),
	BEHAVIOUR(low_water_mark),
	BEHAVIOUR(low_water_mark_in_poll),
	BEHAVIOUR(nonblocking_by_ioctl),
	BEHAVIOUR(level_and_edge),
	BEHAVIOUR(one_shot),
	BEHAVIOUR(copies_share_one_connection),
	BEHAVIOUR(a_child_s_copy_keeps_it_open),
	BEHAVIOUR(closed_on_exec),
	BEHAVIOUR(is_a_socket),
	BEHAVIOUR(from_a_file),
	BEHAVIOUR(through_pipes),
	BEHAVIOUR(signal_of_input),
	BEHAVIOUR(much_there_and_back),
	END,
};
