// SPDX-License-Identifier: MIT OR Apache-2.0
/* Ports, listeners, and who comes to them. */
#include "behaviours.h"

static int bind_to(int fd, int port)
{
	struct sockaddr_in address = loopback(port);

	return bind(fd, (struct sockaddr *)&address, sizeof(address));
}

static int set(int fd, int option)
{
	return setsockopt(fd, SOL_SOCKET, option, &(int){1}, sizeof(int));
}

static void bind_chooses_a_port(void)
{
	int fd = tcp(0);

	TELL(bind_to(fd, 0));
	say_name(fd, getsockname);
	events(fd, 0);
	TELL(bind_to(fd, 0));
}

static void bind_in_use(void)
{
	int from = listener(0), fd = tcp(0);

	TELL(bind_to(fd, port_of(from)));
	set(fd, SO_REUSEADDR);
	TELL(bind_to(fd, port_of(from)));
	close(from);
	pause_ms(10);
	TELL(bind_to(fd, port_of(fd)));
}

static void bind_reused_address(void)
{
	int one = tcp(0), two = tcp(0);

	set(one, SO_REUSEADDR);
	set(two, SO_REUSEADDR);
	TELL(bind_to(one, 0));
	TELL(bind_to(two, port_of(one)));
	TELL(listen(one, 1));
	TELL(listen(two, 1));
}

static void bind_reused_port(void)
{
	int one = tcp(0), two = tcp(0);

	set(one, SO_REUSEPORT);
	set(two, SO_REUSEPORT);
	TELL(bind_to(one, 0));
	TELL(bind_to(two, port_of(one)));
	TELL(listen(one, 1));
	TELL(listen(two, 1));
}

static void bind_elsewhere(void)
{
	struct sockaddr_in6 six = {.sin6_family = AF_INET6};

	TELL(bind(tcp(0), (struct sockaddr *)&peer4, sizeof(peer4)));
	TELL(bind(tcp(0), (struct sockaddr *)&peer4, 4));
	TELL(bind(tcp(0), (struct sockaddr *)&six, sizeof(six)));
	TELL(bind(tcp(0), (struct sockaddr *)8, sizeof(peer4)));
}

static void bind_both_families(void)
{
	struct sockaddr_in6 six = {.sin6_family = AF_INET6};
	struct sockaddr_in four = {.sin_family = AF_INET};
	int one = socket(AF_INET6, SOCK_STREAM, 0), two = tcp(0), three, on = 1;
	socklen_t len = sizeof(six);

	TELL(bind(one, (struct sockaddr *)&six, sizeof(six)));
	TELL(listen(one, 1));
	getsockname(one, (struct sockaddr *)&six, &len);
	four.sin_port = six.sin6_port;
	TELL(bind(two, (struct sockaddr *)&four, sizeof(four)));
	close(one);
	TELL(bind(two, (struct sockaddr *)&four, sizeof(four)));
	three = socket(AF_INET6, SOCK_STREAM, 0);
	TELL(bind(three, (struct sockaddr *)&six, sizeof(six)));
	setsockopt(three, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	TELL(bind(three, (struct sockaddr *)&six, sizeof(six)));
}

/* How often of 300 times a port cannot be bound that has just been closed. */
static int taken(int kind, bool listens)
{
	int i, port = 0, failed = 0;

	for (i = 0; i < 300; i++) {
		int fd = socket(AF_INET, kind, 0);

		if (bind_to(fd, port))
			failed++;
		else if (listens && listen(fd, 1))
			failed++;
		port = port ? port : port_of(fd);
		close(fd);
	}
	return failed;
}

static void bind_after_close(void)
{
	say("%d", taken(SOCK_STREAM, false));
}

static void bind_after_listener_closed(void)
{
	say("%d", taken(SOCK_STREAM, true));
}

static void bind_after_close_of_datagrams(void)
{
	say("%d", taken(SOCK_DGRAM, false));
}

static void bind_while_a_child_has_it(void)
{
	int fd = tcp(0), port;
	pid_t child;

	bind_to(fd, 0);
	port = port_of(fd);
	child = fork();
	if (!child) {
		pause_ms(200);
		_exit(0);
	}
	close(fd);
	TELL(bind_to(tcp(0), port));
	waitpid(child, NULL, 0);
	TELL(bind_to(tcp(0), port));
}

static void bind_after_connection_closed(void)
{
	int from = listener(0), port = port_of(from), client = tcp(0), server, again = tcp(0);
	char byte;

	connect_to(client, port);
	server = accept(from, NULL, NULL);
	close(client);
	TELL(read(server, &byte, 1));
	close(server);
	close(from);
	set(again, SO_REUSEADDR);
	TELL(bind_to(again, port));
	TELL(listen(again, 1));
}

static void bind_to_device(void)
{
	int fd = tcp(0);

	TELL(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "nothing0", 9));
	TELL(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "c0", 3));
	TELL(to(fd, peer4));
}

static void listen_without_bind(void)
{
	int fd = tcp(0);

	TELL(listen(fd, 1));
	say_name(fd, getsockname);
	events(fd, 0);
	TELL(listen(fd, 5));
}

static void listener_read(void)
{
	int fd = listener(SOCK_NONBLOCK);
	char byte;

	TELL(read(fd, &byte, 1));
}

static void listener_write(void)
{
	int fd = listener(SOCK_NONBLOCK);

	TELL(write(fd, "x", 1));
	say("SIGPIPE %d", sigpipes());
}

static void listener_queues(void)
{
	int fd = listener(0), bytes = -1;

	TELL(ioctl(fd, FIONREAD, &bytes));
	TELL(ioctl(fd, SIOCOUTQ, &bytes));
}

static void listener_connects(void)
{
	int fd = listener(0);

	TELL(to(fd, peer4));
	say_name(fd, getpeername);
}

static void listen_on_others(void)
{
	int fd = to_peer(SINK);

	TELL(listen(fd, 1));
	TELL(listen(udp_socket(), 1));
	TELL(accept(fd, NULL, NULL));
	TELL(accept(udp_socket(), NULL, NULL));
}

static void accept_nobody(void)
{
	int fd = listener(0);
	struct timeval limit = {.tv_usec = 50000};

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	TELL(accept(fd, NULL, NULL));
	nonblocking(fd);
	TELL(accept(fd, NULL, NULL));
	TELL(accept4(fd, NULL, NULL, 0x10000));
}

static void accepted_flags(void)
{
	int from = listener(SOCK_NONBLOCK | SOCK_CLOEXEC), fd, on = 1;
	socklen_t len = sizeof(on);

	setsockopt(from, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(from, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	connect_to(tcp(0), port_of(from));
	connect_to(tcp(0), port_of(from));
	events(from, POLLIN);
	fd = accept(from, NULL, NULL);
	say("%d %d", fcntl(fd, F_GETFL) & O_NONBLOCK, fcntl(fd, F_GETFD));
	getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &len);
	say("nodelay %d", on);
	getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &len);
	say("keepalive %d", on);
	fd = accept4(from, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	say("%d %d", fcntl(fd, F_GETFL) & O_NONBLOCK, fcntl(fd, F_GETFD));
	events(from, 0);
}

static void accepted_names(void)
{
	struct sockaddr_in address;
	socklen_t len = sizeof(address);
	int from = listener(0), client = tcp(0), fd;

	connect_to(client, port_of(from));
	fd = accept(from, (struct sockaddr *)&address, &len);
	say("%d %d %d", (int)len, ntohs(address.sin_port) == port_of(client),
	    port_of(fd) == port_of(from));
	len = 2;
	connect_to(tcp(0), port_of(from));
	TELL(accept(from, (struct sockaddr *)&address, &len) >= 0);
	say("%d", (int)len);
}

static void accepted_after_the_client_left(void)
{
	int from = listener(0), client = tcp(0), fd;
	char text[16];

	connect_to(client, port_of(from));
	TELL(write(client, "bye", 3));
	close(client);
	pause_ms(50);
	fd = accept(from, NULL, NULL);
	TELL(read(fd, text, sizeof(text)));
	TELL(read(fd, text, sizeof(text)));
	events(fd, POLLRDHUP);
}

static void accepted_after_reset(void)
{
	struct linger now = {.l_onoff = 1};
	int from = listener(0), client = tcp(0), fd;
	char text[16];

	connect_to(client, port_of(from));
	setsockopt(client, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(client);
	pause_ms(50);
	fd = accept(from, NULL, NULL);
	say("%d", fd >= 0);
	TELL(read(fd, text, sizeof(text)));
}

static void accepted_by_a_child(void)
{
	int from = listener(0), client = tcp(0);
	char byte = 0;

	if (!fork()) {
		int fd = accept(from, NULL, NULL);

		_exit(write(fd, "c", 1) != 1);
	}
	connect_to(client, port_of(from));
	TELL(read(client, &byte, 1));
	TELL(read(client, &byte, 1));
}

static void *shut_it(void *fd)
{
	pause_ms(100);
	shutdown(*(int *)fd, SHUT_RD);
	return NULL;
}

static void shutdown_wakes_accept(void)
{
	int fd = listener(0);
	pthread_t thread;

	pthread_create(&thread, NULL, shut_it, &fd);
	TELL(accept(fd, NULL, NULL));
	events(fd, 0);
	TELL(accept(fd, NULL, NULL));
}

static void *wait_for_it(void *at)
{
	poll(at, 1, 2000);
	return NULL;
}

static void shutdown_wakes_poll_of_a_listener(void)
{
	struct pollfd at = {.fd = listener(0), .events = POLLIN};
	pthread_t thread;

	pthread_create(&thread, NULL, wait_for_it, &at);
	pause_ms(50);
	TELL(shutdown(at.fd, SHUT_RDWR));
	pthread_join(thread, NULL);
	say("%d", (at.revents & POLLHUP) != 0);
}

static void listens_again_after_shutdown(void)
{
	int fd = listener(0), port = port_of(fd), client = tcp(0);

	TELL(shutdown(fd, SHUT_WR));
	TELL(shutdown(fd, SHUT_RD));
	TELL(connect_to(client, port));
	TELL(listen(fd, 1));
	TELL(connect_to(client, port));
	events(fd, POLLIN);
}

static void closed_listener_resets_those_who_wait(void)
{
	int from = listener(0), client = tcp(0);
	char byte;

	TELL(connect_to(client, port_of(from)));
	close(from);
	events(client, POLLHUP);
	TELL(read(client, &byte, 1));
}

static void closed_listener_refuses(void)
{
	int from = listener(0), port = port_of(from);

	close(from);
	TELL(connect_to(tcp(0), port));
}

static void backlog(void)
{
	int from = tcp(0), i, fds[5], connected = 0;

	bind_to(from, 0);
	listen(from, 1);
	for (i = 0; i < 5; i++) {
		fds[i] = tcp(SOCK_NONBLOCK);
		connect_to(fds[i], port_of(from));
	}
	pause_ms(100);
	for (i = 0; i < 5; i++) {
		struct pollfd at = {.fd = fds[i], .events = POLLOUT};

		connected += poll(&at, 1, 0) == 1;
	}
	say("%d", connected);
}

static void edges_of_a_listener(void)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};
	int set = epoll_create1(0), from = listener(SOCK_NONBLOCK), i;

	epoll_ctl(set, EPOLL_CTL_ADD, from, &event);
	for (i = 0; i < 3; i++) {
		connect_to(tcp(0), port_of(from));
		TELL(epoll_wait(set, &event, 1, 1000));
	}
	TELL(epoll_wait(set, &event, 1, 50));
	for (i = 0; i < 3; i++)
		TELL(accept(from, NULL, NULL) >= 0);
	TELL(accept(from, NULL, NULL));
}

static void peer_comes_back(void)
{
	struct sockaddr_in any = {.sin_family = AF_INET};
	int from = tcp(0), order = to_peer(COME_BACK), fd, len;
	char text[16];

	bind(from, (struct sockaddr *)&any, sizeof(any));
	listen(from, 1);
	len = snprintf(text, sizeof(text), "%d\n", port_of(from));
	TELL(write(order, text, len) == len);
	fd = accept(from, NULL, NULL);
	echo(fd);
	shutdown(fd, SHUT_WR);
	TELL(read(fd, text, sizeof(text)));
}

static void many_short_connections(void)
{
	int from = listener(0), port = port_of(from), i, failed = 0;

	for (i = 0; i < 1000; i++) {
		int client = tcp(0), server;

		if (connect_to(client, port))
			failed++;
		server = accept(from, NULL, NULL);
		if (i % 2) {
			close(client);
			close(server);
		} else {
			close(server);
			close(client);
		}
	}
	say("%d", failed);
}

const struct behaviour binding[] = {
	BEHAVIOUR(bind_chooses_a_port),
	BEHAVIOUR(bind_in_use),
	BEHAVIOUR(bind_reused_address),
	BEHAVIOUR(bind_reused_port),
	BEHAVIOUR(bind_elsewhere),
	BEHAVIOUR(bind_both_families),
	BEHAVIOUR(bind_after_close),
	BEHAVIOUR(bind_after_listener_closed),
	BEHAVIOUR(bind_after_close_of_datagrams),
	BEHAVIOUR(bind_while_a_child_has_it),
	BEHAVIOUR(bind_after_connection_closed),
	BEHAVIOUR(bind_to_device),
	END,
};

const struct behaviour listening[] = {
	BEHAVIOUR(listen_without_bind),
	BEHAVIOUR(listener_read),
	BEHAVIOUR(listener_write),
	BEHAVIOUR(listener_queues),
	BEHAVIOUR(listener_connects),
	BEHAVIOUR(listen_on_others),
	BEHAVIOUR(accept_nobody),
	BEHAVIOUR(accepted_flags),
	BEHAVIOUR(accepted_names),
	BEHAVIOUR(accepted_after_the_client_left),
	BEHAVIOUR(accepted_after_reset),
	BEHAVIOUR(accepted_by_a_child),
	BEHAVIOUR(shutdown_wakes_accept),
	BEHAVIOUR(shutdown_wakes_poll_of_a_listener),
	BEHAVIOUR(listens_again_after_shutdown),
	BEHAVIOUR(closed_listener_resets_those_who_wait),
	BEHAVIOUR(closed_listener_refuses),
	BEHAVIOUR(backlog),
	BEHAVIOUR(edges_of_a_listener),
	BEHAVIOUR(peer_comes_back),
	BEHAVIOUR(many_short_connections),
	END,
};
