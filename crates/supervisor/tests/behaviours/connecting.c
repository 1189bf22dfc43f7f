// SPDX-License-Identifier: MIT OR Apache-2.0
/* How a connection begins, or does not. */
#include "behaviours.h"

/* On the link, but nobody has the address. */
static struct sockaddr_in nobody(void)
{
	struct sockaddr_in address = peer4;

	address.sin_addr.s_addr = htonl((ntohl(peer4.sin_addr.s_addr) & ~0xffu) | 99);
	return address;
}

static int unspecified(int fd)
{
	struct sockaddr address = {.sa_family = AF_UNSPEC};

	return connect(fd, &address, sizeof(address));
}

static int echo_order(int fd)
{
	return write(fd, "e", 1);
}

static void connects(void)
{
	int fd = tcp(0);

	TELL(to(fd, peer4));
	events(fd, POLLOUT);
	say("%d", so_error(fd));
	say_name(fd, getsockname);
	say_name(fd, getpeername);
	TELL(to(fd, peer4));
	TELL(echo_order(fd));
	echo(fd);
}

static void connects_nonblocking(void)
{
	int fd = tcp(SOCK_NONBLOCK);

	TELL(to(fd, peer4));
	events(fd, POLLOUT);
	say("%d", so_error(fd));
	TELL(to(fd, peer4));
	TELL(to(fd, peer4));
	events(fd, POLLOUT);
}

static void connects_by_ipv6(void)
{
	struct sockaddr_in6 name = {0};
	socklen_t len = sizeof(name);
	int fd = socket(AF_INET6, SOCK_STREAM, 0);

	TELL(connect(fd, (struct sockaddr *)&peer6, sizeof(peer6)));
	TELL(getpeername(fd, (struct sockaddr *)&name, &len));
	say("%d %d", (int)len, !memcmp(&name.sin6_addr, &peer6.sin6_addr, 16));
	echo_order(fd);
	echo(fd);
}

static struct sockaddr_in6 mapped(void)
{
	struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = peer4.sin_port};

	address.sin6_addr.s6_addr[10] = address.sin6_addr.s6_addr[11] = 0xff;
	memcpy(address.sin6_addr.s6_addr + 12, &peer4.sin_addr, 4);
	return address;
}

static void connects_by_mapped_address(void)
{
	struct sockaddr_in6 address = mapped(), name;
	socklen_t len = sizeof(name);
	char text[64];
	int fd = socket(AF_INET6, SOCK_STREAM, 0);

	TELL(connect(fd, (struct sockaddr *)&address, sizeof(address)));
	getpeername(fd, (struct sockaddr *)&name, &len);
	say("%s", inet_ntop(AF_INET6, &name.sin6_addr, text, sizeof(text)));
}

static void mapped_address_refused_by_v6only(void)
{
	struct sockaddr_in6 address = mapped();
	int fd = socket(AF_INET6, SOCK_STREAM, 0), on = 1;

	setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	TELL(connect(fd, (struct sockaddr *)&address, sizeof(address)));
}

static void connects_to_itself(void)
{
	int fd = tcp(0);
	struct sockaddr_in address = loopback(0);
	char byte = 0;

	bind(fd, (struct sockaddr *)&address, sizeof(address));
	TELL(connect_to(fd, port_of(fd)));
	TELL(write(fd, "s", 1));
	TELL(read(fd, &byte, 1));
	say("%c", byte);
}

static void connects_to_any_address(void)
{
	struct sockaddr_in any = {.sin_family = AF_INET};
	int from = listener(0), fd = tcp(0);

	any.sin_port = htons(port_of(from));
	TELL(to(fd, any));
	say_name(fd, getpeername);
}

static void connects_from_a_bound_port(void)
{
	struct sockaddr_in any = {.sin_family = AF_INET};
	int fd = tcp(0), port;

	bind(fd, (struct sockaddr *)&any, sizeof(any));
	port = port_of(fd);
	TELL(to(fd, peer4));
	say("%d", port == port_of(fd));
}

static void in_progress(void)
{
	int fd = tcp(SOCK_NONBLOCK);
	char byte;

	TELL(to(fd, nobody()));
	events(fd, 0);
	TELL(to(fd, nobody()));
	TELL(read(fd, &byte, 1));
	TELL(write(fd, "x", 1));
	say("%d", so_error(fd));
	say_name(fd, getpeername);
	say_name(fd, getsockname);
	say("%d", fionread(fd));
	TELL(listen(fd, 1));
}

static void in_progress_closed(void)
{
	int fd = tcp(SOCK_NONBLOCK);
	struct sockaddr_in any = {.sin_family = AF_INET};
	int port;

	to(fd, nobody());
	port = port_of(fd);
	close(fd);
	any.sin_port = htons(port);
	TELL(bind(tcp(0), (struct sockaddr *)&any, sizeof(any)));
}

static void in_progress_shut_down(void)
{
	int fd = tcp(SOCK_NONBLOCK);

	to(fd, nobody());
	TELL(shutdown(fd, SHUT_WR));
	events(fd, POLLHUP);
	say("%d", so_error(fd));
}

static void refused(void)
{
	int fd = tcp(0);
	char byte;

	TELL(to(fd, beside_peer()));
	say("%d", so_error(fd));
	events(fd, 0);
	nonblocking(fd);
	say_name(fd, getpeername);
	say("%d", read(fd, &byte, 1) < 0);
}

static void refused_then_connected(void)
{
	int fd = tcp(0);

	TELL(to(fd, beside_peer()));
	TELL(to(fd, peer4));
	echo_order(fd);
	echo(fd);
	TELL(to(fd, peer4));
}

static void refused_many_times(void)
{
	int fd = tcp(0), i;

	for (i = 0; i < 5; i++)
		TELL(to(fd, beside_peer()));
	TELL(to(fd, peer4));
}

static void refused_then_connected_by_a_copy(void)
{
	int fd = tcp(0), copy = dup(fd);

	TELL(to(fd, beside_peer()));
	TELL(to(copy, peer4));
	echo_order(copy);
	echo(copy);
}

static void refused_then_listens(void)
{
	int fd = tcp(0), client = tcp(0);

	TELL(to(fd, beside_peer()));
	TELL(listen(fd, 1));
	TELL(connect_to(client, port_of(fd)));
	events(fd, POLLIN);
}

static void refused_keeps_its_settings(void)
{
	struct timeval limit = {.tv_usec = 500000};
	int fd = tcp(0), on = 1, got = 0;
	socklen_t len = sizeof(got);

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	TELL(to(fd, beside_peer()));
	getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &got, &len);
	limit.tv_usec = 0;
	len = sizeof(limit);
	getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, &len);
	say("%d %d %d", got, limit.tv_usec > 0, fcntl(fd, F_GETFD));
}

static void refused_nonblocking(void)
{
	int fd = tcp(SOCK_NONBLOCK);

	TELL(to(fd, beside_peer()));
	events(fd, POLLHUP);
	say("%d", so_error(fd));
	say("%d", so_error(fd));
	events(fd, 0);
}

static void refused_nonblocking_read(void)
{
	int fd = tcp(SOCK_NONBLOCK);
	char byte;

	TELL(to(fd, beside_peer()));
	pause_ms(100);
	say("%d", read(fd, &byte, 1) < 0);
	TELL(read(fd, &byte, 1));
	say("%d", so_error(fd));
}

static void refused_nonblocking_then_connected(void)
{
	int fd = tcp(SOCK_NONBLOCK);

	TELL(to(fd, beside_peer()));
	events(fd, POLLHUP);
	TELL(to(fd, peer4));
	TELL(to(fd, peer4));
	events(fd, POLLOUT);
	TELL(echo_order(fd));
}

static void refused_nonblocking_error_asked_then_connected(void)
{
	int fd = tcp(SOCK_NONBLOCK);

	TELL(to(fd, beside_peer()));
	events(fd, POLLHUP);
	say("%d", so_error(fd));
	TELL(to(fd, peer4));
	TELL(to(fd, peer4));
	events(fd, POLLOUT);
}

static void unreachable_host(void)
{
	TELL(to(tcp(0), nobody()));
}

static void unreachable_host_nonblocking(void)
{
	struct pollfd at = {.events = POLLOUT};

	at.fd = tcp(SOCK_NONBLOCK);
	TELL(to(at.fd, nobody()));
	TELL(poll(&at, 1, 10000));
	events(at.fd, POLLHUP);
	say("%d", so_error(at.fd));
}

static void unreachable_host_by_ipv6(void)
{
	struct sockaddr_in6 address = peer6;

	address.sin6_addr.s6_addr[15] = 0x99;
	TELL(connect(socket(AF_INET6, SOCK_STREAM, 0), (struct sockaddr *)&address,
		     sizeof(address)));
}

/* The peer is the gateway, and has "unreachable" for this network. */
static void unreachable_by_the_router(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(80)};

	inet_aton("198.51.100.1", &address.sin_addr);
	TELL(to(tcp(0), address));
}

static void unreachable_network(void)
{
	struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons(80)};

	inet_pton(AF_INET6, "2001:db8::1", &address.sin6_addr);
	TELL(connect(socket(AF_INET6, SOCK_STREAM, 0), (struct sockaddr *)&address,
		     sizeof(address)));
}

static void unreachable_then_connected(void)
{
	int fd = tcp(0);

	TELL(to(fd, nobody()));
	TELL(to(fd, peer4));
}

/* Another neighbour that is being asked for must not stop this connection. */
static void connects_beside_an_unreachable_host(void)
{
	int lost = tcp(SOCK_NONBLOCK), fd;

	to(lost, nobody());
	fd = to_peer(ECHO);
	echo(fd);
	events(lost, 0);
}

static void connect_arguments(void)
{
	int fd = tcp(0);

	TELL(connect(fd, (struct sockaddr *)&peer4, 3));
	TELL(connect(fd, (struct sockaddr *)&peer4, 1000));
	TELL(connect(fd, (struct sockaddr *)8, sizeof(peer4)));
	TELL(connect(fd, (struct sockaddr *)&peer6, sizeof(peer6)));
	TELL(connect(-1, (struct sockaddr *)&peer4, sizeof(peer4)));
	TELL(connect(0, (struct sockaddr *)&peer4, sizeof(peer4)));
}

static void connect_to_port_zero(void)
{
	struct sockaddr_in address = peer4;

	address.sin_port = 0;
	TELL(to(tcp(0), address));
}

static void connect_to_multicast(void)
{
	struct sockaddr_in address = peer4;

	inet_aton("224.0.0.1", &address.sin_addr);
	TELL(to(tcp(0), address));
	inet_aton("255.255.255.255", &address.sin_addr);
	TELL(to(tcp(0), address));
}

static void connect_with_a_timeout(void)
{
	struct timeval limit = {.tv_usec = 100000};
	int fd = tcp(0);

	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	TELL(to(fd, nobody()));
	TELL(to(fd, nobody()));
	events(fd, 0);
}

static void alarm_rang(int signal)
{
	(void)signal;
}

static void connect_interrupted(void)
{
	struct sigaction action = {.sa_handler = alarm_rang};
	struct itimerval soon = {.it_value = {.tv_usec = 100000}};
	int fd = tcp(0);

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &soon, NULL);
	TELL(to(fd, nobody()));
	events(fd, 0);
	nonblocking(fd);
	TELL(to(fd, nobody()));
}

static void unspecified_on_a_fresh_socket(void)
{
	int fd = tcp(0);

	TELL(unspecified(fd));
	TELL(to(fd, peer4));
}

static void unspecified_on_a_connection(void)
{
	int fd = to_peer(ECHO);

	echo(fd);
	TELL(unspecified(fd));
	say_name(fd, getpeername);
	events(fd, 0);
	TELL(to(fd, peer4));
	TELL(echo_order(fd));
	echo(fd);
}

static void unspecified_after_refusal(void)
{
	int fd = tcp(0);

	TELL(to(fd, beside_peer()));
	TELL(unspecified(fd));
	TELL(to(fd, peer4));
	echo_order(fd);
	echo(fd);
}

static void unspecified_after_reset(void)
{
	int fd = to_peer(RESET);

	events(fd, POLLHUP);
	TELL(unspecified(fd));
	TELL(to(fd, peer4));
	echo_order(fd);
	echo(fd);
}

static void unspecified_ends_listening(void)
{
	int fd = listener(0), port = port_of(fd), client = tcp(0);

	TELL(unspecified(fd));
	TELL(connect_to(client, port));
	TELL(accept(fd, NULL, NULL));
}

static void epoll_before_connect(void)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET | EPOLLOUT};
	int set = epoll_create1(0), fd = tcp(SOCK_NONBLOCK);
	char text[5];

	epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
	to(fd, peer4);
	events(fd, POLLOUT);
	TELL(write(fd, "w", 1));
	events(fd, POLLIN);
	TELL(epoll_wait(set, &event, 1, 1000));
	say("%x", event.events);
	TELL(read(fd, text, 5));
}

const struct behaviour connecting[] = {
	BEHAVIOUR(connects),
	BEHAVIOUR(connects_nonblocking),
	BEHAVIOUR(connects_by_ipv6),
	BEHAVIOUR(connects_by_mapped_address),
	BEHAVIOUR(mapped_address_refused_by_v6only),
	BEHAVIOUR(connects_to_itself),
	BEHAVIOUR(connects_to_any_address),
	BEHAVIOUR(connects_from_a_bound_port),
	BEHAVIOUR(in_progress),
	BEHAVIOUR(in_progress_closed),
	BEHAVIOUR(in_progress_shut_down),
	BEHAVIOUR(refused),
	BEHAVIOUR(refused_then_connected),
	BEHAVIOUR(refused_many_times),
	BEHAVIOUR(refused_then_connected_by_a_copy),
	BEHAVIOUR(refused_then_listens),
	BEHAVIOUR(refused_keeps_its_settings),
	BEHAVIOUR(refused_nonblocking),
	BEHAVIOUR(refused_nonblocking_read),
	BEHAVIOUR(refused_nonblocking_then_connected),
	BEHAVIOUR(refused_nonblocking_error_asked_then_connected),
	BEHAVIOUR(unreachable_host),
	BEHAVIOUR(unreachable_host_nonblocking),
	BEHAVIOUR(unreachable_host_by_ipv6),
	BEHAVIOUR(unreachable_by_the_router),
	BEHAVIOUR(unreachable_network),
	BEHAVIOUR(unreachable_then_connected),
	BEHAVIOUR(connects_beside_an_unreachable_host),
	BEHAVIOUR(connect_arguments),
	BEHAVIOUR(connect_to_port_zero),
	BEHAVIOUR(connect_to_multicast),
	BEHAVIOUR(connect_with_a_timeout),
	BEHAVIOUR(connect_interrupted),
	BEHAVIOUR(unspecified_on_a_fresh_socket),
	BEHAVIOUR(unspecified_on_a_connection),
	BEHAVIOUR(unspecified_after_refusal),
	BEHAVIOUR(unspecified_after_reset),
	BEHAVIOUR(unspecified_ends_listening),
	BEHAVIOUR(epoll_before_connect),
	END,
};
