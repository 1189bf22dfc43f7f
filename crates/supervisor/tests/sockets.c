// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Does with sockets what programs do, and prints what it sees. The same must be printed on the
 * kernel itself and under the supervisor: that is the test.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *what(long result)
{
	static char text[4][32];
	static int turn;
	char *at = text[turn++ % 4];

	if (result >= 0)
		snprintf(at, 32, "%ld", result);
	else
		snprintf(at, 32, "%s", strerrorname_np(errno));
	return at;
}

#define SAY(call) printf("  %s = %s\n", #call, what(call))

static struct sockaddr_in loopback(int port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return address;
}

static int port_of(int fd)
{
	struct sockaddr_in address;
	socklen_t len = sizeof(address);

	if (getsockname(fd, (struct sockaddr *)&address, &len))
		return -1;
	return ntohs(address.sin_port);
}

static int listener(int flags)
{
	struct sockaddr_in address = loopback(0);
	int fd = socket(AF_INET, SOCK_STREAM | flags, 0);

	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 512))
		printf("  no listener: %s\n", strerrorname_np(errno));
	return fd;
}

static int connect_to(int fd, int port)
{
	struct sockaddr_in address = loopback(port);

	return connect(fd, (struct sockaddr *)&address, sizeof(address));
}

/* A connection: one end by connect, the other by accept. */
static void connected(int *client, int *server)
{
	int from = listener(0);

	*client = socket(AF_INET, SOCK_STREAM, 0);
	if (connect_to(*client, port_of(from)))
		printf("  not connected: %s\n", strerrorname_np(errno));
	*server = accept(from, NULL, NULL);
	close(from);
}

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

/* Waits until the descriptor shows all of these events, at most 5 s, and prints which it shows. */
static void see(const char *when, int fd, short wanted)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP };
	int i;

	for (i = 0; i < 5000; i++) {
		poll(&poll_fd, 1, 0);
		if ((poll_fd.revents & wanted) == wanted)
			break;
		usleep(1000);
	}
	printf("  %s:%s%s%s%s%s\n", when, poll_fd.revents & POLLIN ? " in" : "",
	       poll_fd.revents & POLLOUT ? " out" : "", poll_fd.revents & POLLRDHUP ? " rdhup" : "",
	       poll_fd.revents & POLLERR ? " err" : "", poll_fd.revents & POLLHUP ? " hup" : "");
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
	struct sockaddr_in far = { .sin_family = AF_INET, .sin_port = 1 }, address;
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
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	struct sockaddr_in peer;
	socklen_t len = sizeof(peer);

	SAY(accept(from, NULL, NULL));
	see("nobody", from, 0);
	epoll_ctl(set, EPOLL_CTL_ADD, from, &event);
	one = socket(AF_INET, SOCK_STREAM, 0);
	SAY(connect_to(one, port_of(from)));
	see("somebody", from, POLLIN);
	SAY(epoll_wait(set, &event, 1, 1000));
	two = socket(AF_INET, SOCK_STREAM, 0);
	SAY(connect_to(two, port_of(from)));
	SAY(epoll_wait(set, &event, 1, 1000));
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
	struct linger now = { .l_onoff = 1 };
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
	struct timeval limit = { .tv_usec = 50000 };
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
	struct iovec out[2] = { { text, 5 }, { text + 5, 7 } }, in[2] = { { a, 3 }, { b, 15 } };
	struct msghdr send_header = { .msg_iov = out, .msg_iovlen = 2 };
	struct msghdr header = { .msg_iov = in, .msg_iovlen = 2 };
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

static int udp(void)
{
	struct sockaddr_in address = loopback(0);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (bind(fd, (struct sockaddr *)&address, sizeof(address)))
		printf("  not bound: %s\n", strerrorname_np(errno));
	return fd;
}

static void datagrams(void)
{
	int one = udp(), two = udp();
	struct sockaddr_in to = loopback(port_of(two)), from = { 0 };
	socklen_t len = sizeof(from);
	char text[64] = "";
	struct iovec buffer = { text, 4 };
	struct msghdr header = { .msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &buffer,
				 .msg_iovlen = 1 };
	struct timeval limit = { .tv_usec = 50000 };

	SAY(sendto(one, "first", 5, 0, (struct sockaddr *)&to, sizeof(to)));
	SAY(sendto(one, "", 0, 0, (struct sockaddr *)&to, sizeof(to)));
	SAY(sendto(one, "third one", 9, 0, (struct sockaddr *)&to, sizeof(to)));
	SAY(sendto(one, "fourth", 6, 0, (struct sockaddr *)&to, sizeof(to)));
	see("there", two, POLLIN);
	SAY(recvfrom(two, text, sizeof(text), MSG_PEEK, (struct sockaddr *)&from, &len));
	SAY(recvfrom(two, text, sizeof(text), 0, (struct sockaddr *)&from, &len));
	printf("  '%s' from the right port %d, length %d\n", text, ntohs(from.sin_port) == port_of(one),
	       (int)len);
	SAY(read(two, text, sizeof(text)));
	SAY(recvmsg(two, &header, 0));
	printf("  %.4s, cut %d, name %d\n", text, header.msg_flags & MSG_TRUNC, (int)header.msg_namelen);
	SAY(recv(two, text, 2, MSG_TRUNC));
	SAY(recvfrom(two, text, 2, MSG_DONTWAIT, NULL, NULL));
	setsockopt(two, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	SAY(recvfrom(two, text, 2, 0, (struct sockaddr *)&from, &len));
	SAY(sendto(one, "x", 1, 0, (struct sockaddr *)8, sizeof(to)));
	close(one);
	close(two);
}

static void connected_datagrams(void)
{
	int one = udp(), two = udp(), port = port_of(two);
	struct sockaddr_in to = loopback(port_of(one)), from;
	socklen_t len = sizeof(from);
	char text[64];
	struct pollfd error = { .fd = one, .events = POLLIN };
	struct iovec buffers[2] = { { "ab", 2 }, { "cde", 3 } }, in[2] = { { text, 8 }, { text + 8, 8 } };
	struct mmsghdr out[2] = { { .msg_hdr = { .msg_iov = buffers, .msg_iovlen = 1 } },
				  { .msg_hdr = { .msg_iov = buffers, .msg_iovlen = 2 } } };
	struct mmsghdr got[2] = { { .msg_hdr = { .msg_iov = in, .msg_iovlen = 1 } },
				  { .msg_hdr = { .msg_iov = in + 1, .msg_iovlen = 1 } } };

	SAY(connect_to(one, port));
	SAY(connect(two, (struct sockaddr *)&to, sizeof(to)));
	SAY(write(one, "native", 6));
	SAY(recvfrom(two, text, sizeof(text), 0, (struct sockaddr *)&from, &len));
	printf("  from the right port %d\n", ntohs(from.sin_port) == port_of(one));
	SAY(sendmmsg(one, out, 2, 0));
	usleep(20000);
	SAY(recvmmsg(two, got, 2, 0, NULL));
	printf("  %u %u\n", got[0].msg_len, got[1].msg_len);
	close(two);
	SAY(send(one, "x", 1, 0));
	/* The kernel shows the error as such, the supervisor as something to be read. */
	poll(&error, 1, 5000);
	SAY(recvfrom(one, text, 2, MSG_DONTWAIT, (struct sockaddr *)&from, &len));
	SAY(recvfrom(one, text, 2, MSG_DONTWAIT, (struct sockaddr *)&from, &len));
	close(one);
}

static void processes(void)
{
	char text[64] = "";
	int client, server, other;
	pid_t child;

	connected(&client, &server);
	child = fork();
	if (!child) {
		close(client);
		usleep(50000);
		_exit(write(server, "child", 5) != 5);
	}
	close(server);
	SAY(read(client, text, 5));
	waitpid(child, NULL, 0);
	SAY(read(client, text, 5));
	other = dup2(client, 200);
	close(client);
	SAY(getpeername(other, (struct sockaddr *)text, &(socklen_t){ 16 }));
	SAY(setsockopt(other, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, 4));
	close(other);
}

static void passing(void)
{
	char text[64] = "", room[CMSG_SPACE(sizeof(int))] = "";
	struct iovec byte = { text, 1 };
	struct msghdr header = { .msg_iov = &byte, .msg_iovlen = 1, .msg_control = room,
				 .msg_controllen = sizeof(room) };
	struct cmsghdr *control = CMSG_FIRSTHDR(&header);
	int client, server, local[2], passed;

	connected(&client, &server);
	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, local))
		return;
	*control = (struct cmsghdr){ CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
	memcpy(CMSG_DATA(control), &server, sizeof(server));
	SAY(sendmsg(local[0], &header, 0));
	close(server);
	memset(room, 0, sizeof(room));
	header.msg_controllen = sizeof(room);
	SAY(recvmsg(local[1], &header, 0));
	memcpy(&passed, CMSG_DATA(control), sizeof(passed));
	SAY(write(client, "hello", 5));
	SAY(recv(passed, text, 5, MSG_WAITALL));
	SAY(shutdown(passed, SHUT_RDWR));
	see("ended", client, POLLIN | POLLRDHUP);
	close(passed);
	close(client);
	close(local[0]);
	close(local[1]);
}

static void on_alarm(int signal)
{
	(void)signal;
}

static void interrupted(int flags)
{
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = flags };
	struct itimerval soon = { .it_value.tv_usec = 50000 };
	int from = listener(0), fd = socket(AF_INET, SOCK_STREAM, 0);
	pid_t child;

	sigaction(SIGALRM, &action, NULL);
	child = fork();
	if (!child) {
		usleep(200000);
		_exit(connect_to(fd, port_of(from)));
	}
	setitimer(ITIMER_REAL, &soon, NULL);
	printf("  accept %s\n", accept(from, NULL, NULL) < 0 ? strerrorname_np(errno) : "a descriptor");
	waitpid(child, NULL, 0);
	close(fd);
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
		struct pollfd out = { .fd = client, .events = POLLOUT };
		long left = want - sent;
		ssize_t now = write(client, buffer, left < (long)sizeof(buffer) ? left : (long)sizeof(buffer));

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

static void *connector(void *argument)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	usleep(50000);
	connect_to(fd, *(int *)argument);
	return (void *)(long)fd;
}

static void threads(void)
{
	int from = listener(0), port = port_of(from), fd;
	struct sockaddr_in peer;
	socklen_t len = sizeof(peer);
	pthread_t thread;
	void *client;

	pthread_create(&thread, NULL, connector, &port);
	fd = accept(from, (struct sockaddr *)&peer, &len);
	pthread_join(thread, &client);
	printf("  the right peer %d\n", ntohs(peer.sin_port) == port_of((int)(long)client));
	close(fd);
	close((int)(long)client);
	close(from);
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
	struct sockaddr_in6 address = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	socklen_t len = sizeof(address);
	char text[16] = "";
	int from = socket(AF_INET6, SOCK_STREAM, 0), client = socket(AF_INET6, SOCK_STREAM, 0), server;

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
	SAY(sendfile(client, file, &(off_t){ 0 }, 11));
	FD_ZERO(&set);
	FD_SET(server, &set);
	SAY(select(server + 1, &set, NULL, NULL, &(struct timeval){ .tv_sec = 5 }));
	SAY(read(server, text, sizeof(text)));
	close(server);
	see("gone", client, POLLIN | POLLRDHUP);
	close(file);
	close(client);
}

static void interrupted_for_good(void)
{
	interrupted(0);
}

static void interrupted_and_restarted(void)
{
	interrupted(SA_RESTART);
}

#define RUN(part) (printf("%s\n", #part), part(), fflush(stdout))

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGPIPE, SIG_IGN);
	RUN(connecting);
	RUN(refusals);
	RUN(accepting);
	RUN(half_close);
	RUN(reset);
	RUN(options);
	RUN(messages);
	RUN(datagrams);
	RUN(connected_datagrams);
	RUN(processes);
	RUN(passing);
	RUN(interrupted_for_good);
	RUN(interrupted_and_restarted);
	RUN(back_pressure);
	RUN(threads);
	RUN(many);
	RUN(ipv6);
	RUN(files);
	return 0;
}
