// SPDX-License-Identifier: MIT OR Apache-2.0
/* How a connection ends. */
#include "behaviours.h"

static void peer_closes(void)
{
	int fd = to_peer(CLOSE);
	char byte;

	events(fd, POLLIN | POLLRDHUP);
	TELL(read(fd, &byte, 1));
	TELL(read(fd, &byte, 1));
	say("%d", so_error(fd));
	say_name(fd, getpeername);
}

/* The first write is answered with RST, the second one must fail. */
static void peer_closes_then_two_writes(void)
{
	int fd = to_peer(CLOSE);

	events(fd, POLLRDHUP);
	TELL(write(fd, "x", 1));
	pause_ms(100);
	TELL(write(fd, "x", 1));
	say("SIGPIPE %d", sigpipes());
	TELL(send(fd, "x", 1, MSG_NOSIGNAL));
	say("SIGPIPE %d", sigpipes());
}

static void peer_closes_then_reset_read(void)
{
	int fd = to_peer(CLOSE);
	char byte;

	events(fd, POLLRDHUP);
	TELL(write(fd, "x", 1));
	pause_ms(100);
	TELL(read(fd, &byte, 1));
	TELL(read(fd, &byte, 1));
}

static void peer_closes_then_reset_error(void)
{
	int fd = to_peer(CLOSE);

	events(fd, POLLRDHUP);
	TELL(write(fd, "x", 1));
	pause_ms(100);
	say("%d", so_error(fd));
	say("%d", so_error(fd));
}

static void peer_closes_then_reset_poll(void)
{
	int fd = to_peer(CLOSE);

	events(fd, POLLRDHUP);
	TELL(write(fd, "x", 1));
	events(fd, POLLHUP);
}

static void peer_resets(void)
{
	int fd = to_peer(RESET);

	events(fd, POLLHUP);
	say_name(fd, getpeername);
	TELL(shutdown(fd, SHUT_WR));
}

static void peer_resets_read(void)
{
	int fd = to_peer(RESET);
	char byte;

	events(fd, POLLHUP);
	TELL(read(fd, &byte, 1));
	TELL(read(fd, &byte, 1));
	say("%d", so_error(fd));
	events(fd, 0);
}

static void peer_resets_error_once(void)
{
	int fd = to_peer(RESET);
	char byte;

	events(fd, POLLHUP);
	say("%d", so_error(fd));
	say("%d", so_error(fd));
	TELL(read(fd, &byte, 1));
}

static void peer_resets_write(void)
{
	int fd = to_peer(RESET);

	events(fd, POLLHUP);
	TELL(write(fd, "x", 1));
	say("SIGPIPE %d", sigpipes());
	TELL(write(fd, "x", 1));
	say("SIGPIPE %d", sigpipes());
}

static void peer_resets_a_waiting_read(void)
{
	int fd = to_peer(RESET_LATER);
	char byte;

	TELL(read(fd, &byte, 1));
}

static void peer_closes_a_waiting_read(void)
{
	int fd = to_peer(CLOSE_LATER);
	char byte;

	TELL(read(fd, &byte, 1));
}

static void peer_resets_behind_data(void)
{
	int fd = to_peer(HELLO_RESET);
	char text[16];

	pause_ms(300);
	events(fd, POLLHUP);
	TELL(read(fd, text, sizeof(text)));
	TELL(read(fd, text, sizeof(text)));
	TELL(read(fd, text, sizeof(text)));
}

static void peer_ends_first(void)
{
	int fd = to_peer(HALF);
	char text[16];

	events(fd, POLLIN | POLLRDHUP);
	TELL(read(fd, text, sizeof(text)));
	TELL(read(fd, text, sizeof(text)));
	TELL(write(fd, "still", 5));
	TELL(shutdown(fd, SHUT_WR));
	events(fd, POLLHUP);
	/* Until the last acknowledgement has come. */
	for (int n = 0; n < 100 && shutdown(fd, SHUT_WR) == 0; n++)
		pause_ms(20);
	TELL(shutdown(fd, SHUT_WR));
}

static void ends_first(void)
{
	int fd = to_peer(ECHO);
	char text[16];

	TELL(write(fd, "last", 4));
	TELL(shutdown(fd, SHUT_WR));
	TELL(write(fd, "x", 1));
	say("SIGPIPE %d", sigpipes());
	TELL(recv(fd, text, 16, MSG_WAITALL));
	TELL(read(fd, text, 16));
	events(fd, POLLHUP);
}

static void shutdown_of_sending(void)
{
	int fd = to_peer(DEAF);

	TELL(shutdown(fd, SHUT_WR));
	events(fd, 0);
	TELL(shutdown(fd, SHUT_WR));
	TELL(shutdown(fd, 3));
	TELL(shutdown(fd, -1));
}

static void shutdown_of_receiving(void)
{
	int fd = to_peer(ECHO);
	char byte;

	TELL(shutdown(fd, SHUT_RD));
	events(fd, POLLIN | POLLRDHUP);
	TELL(read(fd, &byte, 1));
	TELL(write(fd, "x", 1));
}

static void shutdown_of_both(void)
{
	int fd = to_peer(DEAF);
	char byte;

	TELL(shutdown(fd, SHUT_RDWR));
	events(fd, POLLHUP);
	TELL(read(fd, &byte, 1));
	TELL(write(fd, "x", 1));
	say("SIGPIPE %d", sigpipes());
	TELL(shutdown(fd, SHUT_RDWR));
}

static void *shut_reading(void *fd)
{
	pause_ms(100);
	shutdown(*(int *)fd, SHUT_RD);
	return NULL;
}

static void shutdown_wakes_read(void)
{
	int fd = to_peer(DEAF);
	pthread_t thread;
	char byte;

	pthread_create(&thread, NULL, shut_reading, &fd);
	TELL(read(fd, &byte, 1));
}

static void lingering(void)
{
	struct linger set = {.l_onoff = 1, .l_linger = 3}, got = {0};
	socklen_t len = sizeof(got);
	int fd = to_peer(SINK);

	TELL(setsockopt(fd, SOL_SOCKET, SO_LINGER, &set, sizeof(set)));
	getsockopt(fd, SOL_SOCKET, SO_LINGER, &got, &len);
	say("%d %d", got.l_onoff, got.l_linger);
	TELL(close(fd));
}

static void lingering_for_no_time_resets(void)
{
	struct linger now = {.l_onoff = 1};
	int client, server;
	char byte;

	connected(&client, &server);
	setsockopt(client, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	TELL(close(client));
	events(server, POLLHUP);
	TELL(read(server, &byte, 1));
}

/* RFC 2525, section 2.17: who closes with data unread resets. */
static void closing_with_data_unread_resets(void)
{
	int client, server;
	char byte;

	connected(&client, &server);
	TELL(write(server, "unread", 6));
	events(client, POLLIN);
	close(client);
	events(server, POLLHUP);
	TELL(read(server, &byte, 1));
}

static void closing_delivers_what_was_written(void)
{
	static char much[300000];
	int client, server;
	long all = 0, got;

	connected(&client, &server);
	TELL(write(client, much, sizeof(much)));
	close(client);
	while ((got = read(server, much, sizeof(much))) > 0)
		all += got;
	say("%ld", all);
	TELL(got);
}

static void killed_process_closes(void)
{
	int from = listener(0), fd;
	char byte;
	pid_t child = fork();

	if (!child) {
		int client = tcp(0);

		connect_to(client, port_of(from));
		pause();
	}
	fd = accept(from, NULL, NULL);
	kill(child, SIGKILL);
	events(fd, POLLRDHUP);
	TELL(read(fd, &byte, 1));
}

const struct behaviour closing[] = {
	BEHAVIOUR(peer_closes),
	BEHAVIOUR(peer_closes_then_two_writes),
	BEHAVIOUR(peer_closes_then_reset_read),
	BEHAVIOUR(peer_closes_then_reset_error),
	BEHAVIOUR(peer_closes_then_reset_poll),
	BEHAVIOUR(peer_resets),
	BEHAVIOUR(peer_resets_read),
	BEHAVIOUR(peer_resets_error_once),
	BEHAVIOUR(peer_resets_write),
	BEHAVIOUR(peer_resets_a_waiting_read),
	BEHAVIOUR(peer_closes_a_waiting_read),
	BEHAVIOUR(peer_resets_behind_data),
	BEHAVIOUR(peer_ends_first),
	BEHAVIOUR(ends_first),
	BEHAVIOUR(shutdown_of_sending),
	BEHAVIOUR(shutdown_of_receiving),
	BEHAVIOUR(shutdown_of_both),
	BEHAVIOUR(shutdown_wakes_read),
	BEHAVIOUR(lingering),
	BEHAVIOUR(lingering_for_no_time_resets),
	BEHAVIOUR(closing_with_data_unread_resets),
	BEHAVIOUR(closing_delivers_what_was_written),
	BEHAVIOUR(killed_process_closes),
	END,
};
