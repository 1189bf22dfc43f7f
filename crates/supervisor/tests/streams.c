// SPDX-License-Identifier: MIT OR Apache-2.0
/* Connections: how they begin and end, what is asked of them, what they carry. */
#include "sockets.h"

static int free_port(void)
{
	int fd = listener(0), port = port_of(fd);

	close(fd);
	return port;
}

static int so_error(int fd)
{
	int error = -1;
	socklen_t len = sizeof(error);

	getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
	return error;
}

static void connecting(void)
{
	int from = listener(0), fd, port = free_port();

	fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	SAY(connect_to(fd, port_of(from)));
	see("connected", fd, POLLOUT);
	printf("  error %d\n", so_error(fd));
	close(fd);

	fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	SAY(connect_to(fd, port));
	see("refused", fd, POLLOUT | POLLERR | POLLHUP);
	printf("  error %d\n", so_error(fd));
	printf("  error %d\n", so_error(fd));
	/* The first only learns that the attempt before has failed. */
	connect_to(fd, port_of(from));
	SAY(connect_to(fd, port_of(from)));
	see("connected after all", fd, POLLOUT);
	SAY(write(fd, "x", 1));
	close(fd);

	fd = socket(AF_INET, SOCK_STREAM, 0);
	SAY(connect_to(fd, port));
	SAY(connect_to(fd, port_of(from)));
	SAY(connect_to(fd, port_of(from)));
	see("blocking", fd, POLLOUT);
	close(fd);
	close(from);
}

static void refusals(void)
{
	struct sockaddr_in far = {.sin_family = AF_INET, .sin_port = 1}, address;
	socklen_t negative = -1, len = 4;
	int fd = socket(AF_INET, SOCK_STREAM, 0), from = listener(0), ends[2];

	inet_aton("192.0.2.1", &far.sin_addr);
	address = loopback(port_of(from));
	SAY(connect(fd, (struct sockaddr *)&far, sizeof(far)));
	SAY(bind(fd, (struct sockaddr *)&far, sizeof(far)));
	SAY(bind(fd, (struct sockaddr *)&address, sizeof(address)));
	SAY(bind(fd, (struct sockaddr *)8, sizeof(address)));
	SAY(connect(fd, (struct sockaddr *)8, sizeof(address)));
	SAY(connect(fd, (struct sockaddr *)&address, 3));
	SAY(connect(fd, (struct sockaddr *)&address, 1000));
	SAY(getpeername(fd, (struct sockaddr *)&address, &negative));
	SAY(getsockname(fd, (struct sockaddr *)&address, &negative));
	SAY(shutdown(fd, SHUT_WR));
	SAY(accept(fd, NULL, NULL));
	SAY(socket(AF_INET, 99, 0));
	SAY(socket(AF_INET, SOCK_STREAM, IPPROTO_UDP));
	SAY(getsockopt(fd, 12345, 1, &address, &len));
	SAY(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, (void *)8, 4));
	close(fd);
	SAY(listen(fd, 1));
	if (pipe(ends))
		return;
	SAY(listen(ends[0], 1));
	close(ends[0]);
	close(ends[1]);
	close(from);
}

static void accepting(void)
{
	int from = listener(SOCK_NONBLOCK), one, two, fd, set = epoll_create1(0);
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};
	struct sockaddr_in peer;
	socklen_t len = sizeof(peer);

	SAY(accept(from, NULL, NULL));
	see("nobody", from, 0);
	epoll_ctl(set, EPOLL_CTL_ADD, from, &event);
	one = socket(AF_INET, SOCK_STREAM, 0);
	SAY(connect_to(one, port_of(from)));
	see("somebody", from, POLLIN);
	SAY(epoll_wait(set, &event, 1, 5000));
	two = socket(AF_INET, SOCK_STREAM, 0);
	SAY(connect_to(two, port_of(from)));
	SAY(epoll_wait(set, &event, 1, 5000));
	fd = accept4(from, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
	printf("  flags %d %d, length %d, the client's port %d\n", fcntl(fd, F_GETFL) & O_NONBLOCK,
	       fcntl(fd, F_GETFD), (int)len, ntohs(peer.sin_port) == port_of(one));
	see("accepted", fd, POLLOUT);
	see("one is left", from, POLLIN);
	close(fd);
	fd = accept(from, NULL, NULL);
	printf("  flags %d %d\n", fcntl(fd, F_GETFL) & O_NONBLOCK, fcntl(fd, F_GETFD));
	SAY(accept(from, NULL, NULL));
	see("none is left", from, 0);
	close(fd);
	close(one);
	close(two);
	close(set);
	close(from);
}

static void half_close(void)
{
	char text[64];
	int client, server;

	connected(&client, &server);
	SAY(write(client, "question", 8));
	SAY(shutdown(client, SHUT_WR));
	see("server", server, POLLIN | POLLRDHUP);
	SAY(read(server, text, sizeof(text)));
	SAY(read(server, text, sizeof(text)));
	SAY(write(server, "answer", 6));
	see("client", client, POLLIN);
	SAY(read(client, text, sizeof(text)));
	SAY(shutdown(server, SHUT_WR));
	see("both shut", client, POLLIN | POLLRDHUP | POLLHUP);
	SAY(read(client, text, sizeof(text)));
	printf("  error %d\n", so_error(client));
	close(server);
	close(client);

	connected(&client, &server);
	close(server);
	see("closed", client, POLLIN | POLLRDHUP);
	SAY(read(client, text, sizeof(text)));
	close(client);
}

static void reset(void)
{
	struct linger now = {.l_onoff = 1};
	char text[64];
	int client, server;

	connected(&client, &server);
	setsockopt(server, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(server);
	see("reset", client, POLLIN | POLLERR | POLLHUP);
	SAY(read(client, text, sizeof(text)));
	SAY(read(client, text, sizeof(text)));
	SAY(send(client, "x", 1, MSG_NOSIGNAL));
	close(client);

	connected(&client, &server);
	setsockopt(server, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(server);
	see("reset", client, POLLIN | POLLERR | POLLHUP);
	printf("  error %d\n", so_error(client));
	close(client);
}

static void options(void)
{
	struct tcp_info info;
	struct timeval limit = {.tv_usec = 50000};
	socklen_t len = sizeof(int);
	int client, server, value = 1, from = listener(0);

	connected(&client, &server);
	SAY(setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &value, sizeof(value)));
	value = 0;
	SAY(getsockopt(client, IPPROTO_TCP, TCP_NODELAY, &value, &len));
	printf("  nodelay %d, length %d\n", value, (int)len);
	getsockopt(client, SOL_SOCKET, SO_TYPE, &value, &len);
	printf("  type %d", value);
	getsockopt(client, SOL_SOCKET, SO_DOMAIN, &value, &len);
	printf(" domain %d", value);
	getsockopt(client, SOL_SOCKET, SO_PROTOCOL, &value, &len);
	printf(" protocol %d", value);
	getsockopt(from, SOL_SOCKET, SO_ACCEPTCONN, &value, &len);
	printf(" listens %d", value);
	len = sizeof(info);
	getsockopt(client, IPPROTO_TCP, TCP_INFO, &info, &len);
	printf(" state %d\n", info.tcpi_state);
	SAY(setsockopt(from, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)));
	SAY(accept(from, NULL, NULL));
	SAY(setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)));
	SAY(read(client, &value, 1));
	close(client);
	close(server);
	close(from);
}

static void messages(void)
{
	char a[4] = "", b[16] = "", text[] = "twelve bytes";
	struct iovec out[2] = {{text, 5}, {text + 5, 7}}, in[2] = {{a, 3}, {b, 15}};
	struct msghdr send_header = {.msg_iov = out, .msg_iovlen = 2};
	struct msghdr header = {.msg_iov = in, .msg_iovlen = 2};
	struct sockaddr_in peer;
	socklen_t len = sizeof(peer);
	int client, server, bytes = 0;

	connected(&client, &server);
	SAY(sendmsg(client, &send_header, 0));
	see("there", server, POLLIN);
	ioctl(server, FIONREAD, &bytes);
	printf("  %d bytes\n", bytes);
	SAY(recv(server, b, 4, MSG_PEEK));
	SAY(recvmsg(server, &header, 0));
	printf("  '%s' '%s'\n", a, b);
	SAY(recv(server, b, 4, MSG_DONTWAIT));
	SAY(send(client, "abcd", 4, MSG_NOSIGNAL));
	SAY(recvfrom(server, b, 4, MSG_WAITALL, (struct sockaddr *)&peer, &len));
	printf("  length of the name %d\n", (int)len);
	close(server);
	close(client);
}

static int unsent(int fd)
{
	int bytes = -1;

	ioctl(fd, SIOCOUTQNSD, &bytes);
	return bytes;
}

/* Nothing leaves as long as there is more to come. */
static void in_parts(void)
{
	char text[16] = "";
	struct iovec part = {"c", 1};
	struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
	int client, server;

	connected(&client, &server);
	setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	SAY(send(client, "ab", 2, MSG_MORE));
	SAY(unsent(client));
	SAY(sendmsg(client, &header, MSG_MORE));
	SAY(unsent(client));
	SAY(recv(server, text, sizeof(text), MSG_DONTWAIT));
	SAY(write(client, "d", 1));
	SAY(unsent(client));
	SAY(recv(server, text, sizeof(text), 0));
	printf("  '%s'\n", text);
	SAY(send(client, "e", 1, MSG_MORE));
	SAY(shutdown(client, SHUT_WR));
	SAY(recv(server, text, sizeof(text), 0));
	close(server);
	SAY(send(client, "x", 1, MSG_MORE | MSG_NOSIGNAL));
	close(client);
}

/* What is set on a listener is set on the connections that it accepts. */
static void inheriting(void)
{
	struct timeval limit = {.tv_sec = 7}, none = {0};
	int from = listener(0), client = socket(AF_INET, SOCK_STREAM, 0), server, value = 0;
	socklen_t len = sizeof(limit);

	setsockopt(from, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(from, SOL_SOCKET, SO_RCVLOWAT, &(int){5}, sizeof(int));
	setsockopt(from, SOL_SOCKET, SO_OOBINLINE, &(int){1}, sizeof(int));
	connect_to(client, port_of(from));
	server = accept(from, NULL, NULL);
	SAY(getsockopt(server, SOL_SOCKET, SO_RCVTIMEO, &none, &len));
	len = sizeof(value);
	getsockopt(server, SOL_SOCKET, SO_RCVLOWAT, &value, &len);
	printf("  %ld s, %d bytes", (long)none.tv_sec, value);
	getsockopt(server, SOL_SOCKET, SO_OOBINLINE, &value, &len);
	printf(", in line %d\n", value);
	close(server);
	close(client);
	close(from);
}

static void *reader(void *argument)
{
	static long total;
	char buffer[65536];
	ssize_t got;

	usleep(100000);
	while ((got = read(*(int *)argument, buffer, sizeof(buffer))) > 0)
		total += got;
	return &total;
}

static void back_pressure(void)
{
	static char buffer[100000];
	long sent = 0, want = 64L << 20;
	void *total;
	int client, server, waited = 0;
	pthread_t thread;

	connected(&client, &server);
	fcntl(client, F_SETFL, O_NONBLOCK);
	pthread_create(&thread, NULL, reader, &server);
	while (sent < want) {
		struct pollfd out = {.fd = client, .events = POLLOUT};
		long left = want - sent;
		ssize_t now = write(client, buffer,
				    left < (long)sizeof(buffer) ? left : (long)sizeof(buffer));

		if (now > 0) {
			sent += now;
		} else {
			waited = 1;
			poll(&out, 1, 5000);
		}
	}
	close(client);
	pthread_join(thread, &total);
	printf("  waited %d, all received %d\n", waited, *(long *)total == sent);
	close(server);
}

static void many(void)
{
	enum { COUNT = 300 };
	int from = listener(0), clients[COUNT], servers[COUNT], i, good = 0;
	char byte;

	for (i = 0; i < COUNT; i++) {
		clients[i] = socket(AF_INET, SOCK_STREAM, 0);
		connect_to(clients[i], port_of(from));
		servers[i] = accept(from, NULL, NULL);
	}
	for (i = 0; i < COUNT; i++) {
		byte = (char)i;
		if (write(clients[i], &byte, 1) == 1 && read(servers[i], &byte, 1) == 1)
			good += byte == (char)i;
	}
	printf("  %d of %d\n", good, COUNT);
	for (i = 0; i < COUNT; i++) {
		close(clients[i]);
		close(servers[i]);
	}
	close(from);
}

static void ipv6(void)
{
	struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	socklen_t len = sizeof(address);
	char text[16] = "";
	int from = socket(AF_INET6, SOCK_STREAM, 0), client = socket(AF_INET6, SOCK_STREAM, 0),
	    server;

	SAY(bind(from, (struct sockaddr *)&address, len));
	SAY(listen(from, 1));
	SAY(getsockname(from, (struct sockaddr *)&address, &len));
	SAY(connect(client, (struct sockaddr *)&address, len));
	server = accept(from, (struct sockaddr *)&address, &len);
	printf("  family %d, length %d\n", address.sin6_family, (int)len);
	SAY(write(client, "six", 3));
	SAY(read(server, text, 3));
	close(client);
	close(server);
	close(from);
}

static void files(void)
{
	char path[] = "/tmp/transom-sockets-XXXXXX", text[32] = "";
	int file = mkstemp(path), client, server;
	fd_set set;

	unlink(path);
	if (write(file, "from a file", 11) != 11)
		return;
	connected(&client, &server);
	SAY(sendfile(client, file, &(off_t){0}, 11));
	FD_ZERO(&set);
	FD_SET(server, &set);
	SAY(select(server + 1, &set, NULL, NULL, &(struct timeval){.tv_sec = 5}));
	SAY(read(server, text, sizeof(text)));
	close(server);
	see("gone", client, POLLIN | POLLRDHUP);
	close(file);
	close(client);
}

int main(void)
{
	begin();
	RUN(connecting);
	RUN(refusals);
	RUN(accepting);
	RUN(half_close);
	RUN(reset);
	RUN(options);
	RUN(messages);
	RUN(in_parts);
	RUN(inheriting);
	RUN(back_pressure);
	RUN(many);
	RUN(ipv6);
	RUN(files);
	return 0;
}
