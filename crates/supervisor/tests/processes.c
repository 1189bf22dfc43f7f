// SPDX-License-Identifier: MIT OR Apache-2.0
/* Descriptors that move between processes and threads, and signals. */
#include "sockets.h"

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
	SAY(getpeername(other, (struct sockaddr *)text, &(socklen_t){16}));
	SAY(setsockopt(other, IPPROTO_TCP, TCP_NODELAY, &(int){1}, 4));
	close(other);
}

static void passing(void)
{
	char text[64] = "", room[CMSG_SPACE(sizeof(int))] = "";
	struct iovec byte = {text, 1};
	struct msghdr header = {.msg_iov = &byte,
				.msg_iovlen = 1,
				.msg_control = room,
				.msg_controllen = sizeof(room)};
	struct cmsghdr *control = CMSG_FIRSTHDR(&header);
	int client, server, local[2], passed;

	connected(&client, &server);
	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, local))
		return;
	*control = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
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
	struct sigaction action = {.sa_handler = on_alarm, .sa_flags = flags};
	/* Until one finds it in accept, however late it comes there. */
	struct itimerval soon = {{0, 150000}, {0, 150000}}, none = {0};
	int from = listener(0), fd = socket(AF_INET, SOCK_STREAM, 0);
	pid_t child;

	sigaction(SIGALRM, &action, NULL);
	child = fork();
	if (!child) {
		/* Between two alarms. */
		usleep(1425000);
		_exit(connect_to(fd, port_of(from)));
	}
	setitimer(ITIMER_REAL, &soon, NULL);
	printf("  accept %s\n",
	       accept(from, NULL, NULL) < 0 ? strerrorname_np(errno) : "a descriptor");
	setitimer(ITIMER_REAL, &none, NULL);
	waitpid(child, NULL, 0);
	close(fd);
	close(from);
}

static void interrupted_for_good(void)
{
	interrupted(0);
}

static void interrupted_and_restarted(void)
{
	interrupted(SA_RESTART);
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

static void *acceptor(void *from)
{
	static long fd;

	fd = accept(*(int *)from, NULL, NULL);
	return &fd;
}

/* Who waits in accept gets a connection although another thread has closed the listener. */
static void closed_by_another(void)
{
	int from = listener(0), port = port_of(from), one = socket(AF_INET, SOCK_STREAM, 0),
	    two = socket(AF_INET, SOCK_STREAM, 0), i, refused = 0;
	pthread_t thread;
	void *got;

	pthread_create(&thread, NULL, acceptor, &from);
	usleep(100000);
	SAY(close(from));
	usleep(100000);
	SAY(connect_to(one, port));
	pthread_join(thread, &got);
	printf("  accepted %d\n", *(long *)got >= 0);
	/* The last one who waited has gone, and the listener with it. */
	for (i = 0; i < 3000 && !refused; i++, usleep(1000)) {
		close(two);
		two = socket(AF_INET, SOCK_STREAM, 0);
		refused = connect_to(two, port) && errno == ECONNREFUSED;
	}
	printf("  then refused %d\n", refused);
	close(*(long *)got);
	close(one);
	close(two);
}

/* The same of one who was killed: nobody waits, and the port is free. */
static void killed_in_accept(void)
{
	int from = listener(0), port = port_of(from), again = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in address = loopback(port);
	pid_t child = fork();

	if (!child)
		_exit(accept(from, NULL, NULL));
	close(from);
	usleep(100000);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	SAY(bind(again, (struct sockaddr *)&address, sizeof(address)));
	SAY(listen(again, 1));
	close(again);
}

int main(void)
{
	begin();
	RUN(processes);
	RUN(passing);
	RUN(interrupted_for_good);
	RUN(interrupted_and_restarted);
	RUN(threads);
	RUN(closed_by_another);
	RUN(killed_in_accept);
	return 0;
}
