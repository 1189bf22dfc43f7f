// SPDX-License-Identifier: MIT OR Apache-2.0
/* UDP: where datagrams go and come from, how long they are, how errors come back. */
#include "behaviours.h"

static int send_to(int fd, const char *text, struct sockaddr_in address)
{
	return sendto(fd, text, strlen(text), 0, (struct sockaddr *)&address, sizeof(address));
}

static void datagram_poll(void)
{
	int fd = udp_socket();

	events(fd, 0);
	say("%d", fionread(fd));
	say_name(fd, getsockname);
	say_name(fd, getpeername);
}

static void datagram_echo(void)
{
	struct sockaddr_in from = {0};
	socklen_t len = sizeof(from);
	int fd = udp_socket();
	char text[16] = "";

	TELL(send_to(fd, "datagram", peer4));
	TELL(recvfrom(fd, text, sizeof(text), 0, (struct sockaddr *)&from, &len));
	say("%s %d %d", text, (int)len, from.sin_port == peer4.sin_port);
	TELL(recv(fd, text, 1, MSG_DONTWAIT));
}

static void datagram_connected(void)
{
	int fd = udp_socket();
	char text[16] = "";

	TELL(to(fd, peer4));
	say_name(fd, getsockname);
	say_name(fd, getpeername);
	TELL(send(fd, "one", 3, 0));
	TELL(recv(fd, text, sizeof(text), 0));
	TELL(write(fd, "two", 3));
	TELL(read(fd, text, sizeof(text)));
	say("%s", text);
	TELL(send_to(fd, "elsewhere", beside_peer()));
}

static void datagram_by_ipv6(void)
{
	struct sockaddr_in6 from = {0};
	socklen_t len = sizeof(from);
	int fd = socket(AF_INET6, SOCK_DGRAM, 0);
	char text[16];

	TELL(sendto(fd, "six", 3, 0, (struct sockaddr *)&peer6, sizeof(peer6)));
	TELL(recvfrom(fd, text, sizeof(text), 0, (struct sockaddr *)&from, &len));
	say("%d", (int)len);
}

static void datagram_unspecified(void)
{
	struct sockaddr unspecified = {.sa_family = AF_UNSPEC};
	int fd = udp_socket();
	char text[16];

	TELL(to(fd, peer4));
	TELL(connect(fd, &unspecified, sizeof(unspecified)));
	say_name(fd, getpeername);
	TELL(send_to(fd, "again", peer4));
	TELL(recv(fd, text, sizeof(text), 0));
	TELL(to(fd, peer4));
	TELL(to(fd, peer4));
	TELL(send(fd, "x", 1, 0));
	TELL(recv(fd, text, sizeof(text), 0));
}

static void datagram_from_others_is_not_heard(void)
{
	int one = bound_udp(), two = bound_udp(), three = bound_udp();
	char text[16];

	connect_to(one, port_of(two));
	TELL(send_to(three, "foreign", loopback(port_of(one))));
	TELL(send_to(two, "friend", loopback(port_of(one))));
	TELL(recv(one, text, sizeof(text), 0));
	TELL(recv(one, text, sizeof(text), MSG_DONTWAIT));
}

static void datagram_without_destination(void)
{
	TELL(send(udp_socket(), "x", 1, 0));
}

static void datagram_written_without_destination(void)
{
	TELL(write(udp_socket(), "x", 1));
}

static void datagram_message_without_destination(void)
{
	struct iovec piece = {"x", 1};
	struct msghdr header = {.msg_iov = &piece, .msg_iovlen = 1};

	TELL(sendmsg(udp_socket(), &header, 0));
}

static void datagram_of_no_length(void)
{
	int one = bound_udp(), two = bound_udp();
	char text[16];

	connect_to(one, port_of(two));
	TELL(send(one, "", 0, 0));
	events(two, POLLIN);
	say("%d", fionread(two));
	TELL(recv(two, text, sizeof(text), 0));
	TELL(recv(two, text, sizeof(text), MSG_DONTWAIT));
}

static void datagram_too_long(void)
{
	static char much[70000];
	int fd = udp_socket();

	TELL(sendto(fd, much, 65508, 0, (struct sockaddr *)&peer4, sizeof(peer4)));
	TELL(sendto(fd, much, 70000, 0, (struct sockaddr *)&peer4, sizeof(peer4)));
	TELL(sendto(fd, much, 65507, 0, (struct sockaddr *)&peer4, sizeof(peer4)));
	TELL(recv(fd, much, sizeof(much), 0));
	connect(fd, (struct sockaddr *)&peer4, sizeof(peer4));
	TELL(send(fd, much, 65508, 0));
}

static void datagram_cut(void)
{
	int one = bound_udp(), two = bound_udp();
	char text[16];
	struct iovec piece = {text, 3};
	struct msghdr header = {.msg_iov = &piece, .msg_iovlen = 1};

	connect_to(one, port_of(two));
	TELL(send(one, "long one", 8, 0));
	TELL(send(one, "long two", 8, 0));
	TELL(send(one, "three", 5, 0));
	events(two, POLLIN);
	TELL(recv(two, text, 3, MSG_TRUNC | MSG_PEEK));
	TELL(recv(two, text, 3, 0));
	TELL(recvmsg(two, &header, 0));
	say("%x", header.msg_flags);
	TELL(recv(two, text, 3, MSG_TRUNC));
}

/* Of a queue, FIONREAD says the first one's length. */
static void datagram_unread(void)
{
	int one = bound_udp(), two = bound_udp();

	connect_to(one, port_of(two));
	TELL(send(one, "123", 3, 0));
	TELL(send(one, "12345", 5, 0));
	events(two, POLLIN);
	pause_ms(50);
	say("%d", fionread(two));
}

static void datagram_order(void)
{
	int one = bound_udp(), two = bound_udp(), i;
	char byte;

	connect_to(one, port_of(two));
	for (i = 0; i < 30; i++) {
		byte = 'a' + i % 26;
		if (i % 2)
			send(one, &byte, 1, 0);
		else
			send_to(one, (char[]){byte, 0}, loopback(port_of(two)));
	}
	pause_ms(50);
	for (i = 0; i < 30; i++)
		if (recv(two, &byte, 1, MSG_DONTWAIT) != 1 || byte != 'a' + i % 26)
			break;
	say("%d", i);
}

static void datagrams_at_once(void)
{
	int one = bound_udp(), two = bound_udp(), i;
	char text[4][8];
	struct iovec pieces[4];
	struct mmsghdr messages[4] = {0};

	connect_to(one, port_of(two));
	for (i = 0; i < 4; i++) {
		pieces[i] = (struct iovec){text[i], i + 1};
		messages[i].msg_hdr = (struct msghdr){.msg_iov = pieces + i, .msg_iovlen = 1};
	}
	TELL(sendmmsg(one, messages, 3, 0));
	pause_ms(50);
	TELL(recvmmsg(two, messages, 4, MSG_WAITFORONE, NULL));
	say("%u %u %u", messages[0].msg_len, messages[1].msg_len, messages[2].msg_len);
}

/* Without MSG_WAITFORONE it waits for all that were asked for. */
static void datagrams_all_waited_for(void)
{
	int one = bound_udp(), two = bound_udp(), i;
	char text[3][8];
	struct iovec pieces[3];
	struct mmsghdr messages[3] = {0};

	connect_to(one, port_of(two));
	for (i = 0; i < 3; i++) {
		pieces[i] = (struct iovec){text[i], 8};
		messages[i].msg_hdr = (struct msghdr){.msg_iov = pieces + i, .msg_iovlen = 1};
	}
	if (!fork()) {
		for (i = 0; i < 3; i++) {
			pause_ms(50);
			send(one, "123", i + 1, 0);
		}
		_exit(0);
	}
	TELL(recvmmsg(two, messages, 3, 0, NULL));
	say("%u %u %u", messages[0].msg_len, messages[1].msg_len, messages[2].msg_len);
}

static void datagram_timeout(void)
{
	struct timeval limit = {.tv_usec = 50000};
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	int fd = bound_udp();
	char byte;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	TELL(recv(fd, &byte, 1, 0));
	TELL(recvfrom(fd, &byte, 1, 0, (struct sockaddr *)&from, &len));
}

static void *shut(void *fd)
{
	pause_ms(100);
	shutdown(*(int *)fd, SHUT_RDWR);
	return NULL;
}

static void shutdown_wakes_recv_of_datagrams(void)
{
	int fd = udp_socket();
	pthread_t thread;
	char byte;

	to(fd, peer4);
	pthread_create(&thread, NULL, shut, &fd);
	TELL(recv(fd, &byte, 1, 0));
	pthread_join(thread, NULL);
	events(fd, POLLHUP);
	TELL(send(fd, "x", 1, 0));
	say("SIGPIPE %d", sigpipes());
}

static void shutdown_wakes_recvfrom_of_datagrams(void)
{
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	int fd = bound_udp();
	pthread_t thread;
	char byte;

	pthread_create(&thread, NULL, shut, &fd);
	TELL(recvfrom(fd, &byte, 1, 0, (struct sockaddr *)&from, &len));
	TELL(shutdown(fd, SHUT_RD));
}

static void datagram_broadcast(void)
{
	struct sockaddr_in address = peer4;
	int fd = udp_socket(), on = 1;

	inet_aton("255.255.255.255", &address.sin_addr);
	TELL(send_to(fd, "x", address));
	setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &on, sizeof(on));
	inet_aton("127.255.255.255", &address.sin_addr);
	TELL(send_to(fd, "x", address));
}

static void control(int option, int on)
{
	int one = bound_udp(), two = bound_udp();
	char text[16], room[256];
	struct iovec piece = {text, sizeof(text)};
	struct msghdr header = {.msg_iov = &piece,
				.msg_iovlen = 1,
				.msg_control = room,
				.msg_controllen = sizeof(room)};
	struct cmsghdr *first;

	TELL(setsockopt(two, IPPROTO_IP, option, &on, sizeof(on)));
	connect_to(one, port_of(two));
	TELL(send(one, "control", 7, 0));
	TELL(recvmsg(two, &header, 0));
	first = CMSG_FIRSTHDR(&header);
	if (first)
		say("%d %d %d", first->cmsg_level, first->cmsg_type, (int)first->cmsg_len);
}

static void datagram_with_its_address(void)
{
	control(IP_PKTINFO, 1);
}

static void datagram_with_its_hops(void)
{
	control(IP_RECVTTL, 1);
}

static void datagram_with_control_sent(void)
{
	int one = bound_udp(), two = bound_udp();
	char room[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec piece = {"ttl", 3};
	struct msghdr header = {.msg_iov = &piece,
				.msg_iovlen = 1,
				.msg_control = room,
				.msg_controllen = sizeof(room)};
	struct cmsghdr *first = CMSG_FIRSTHDR(&header);

	first->cmsg_level = IPPROTO_IP;
	first->cmsg_type = IP_TTL;
	first->cmsg_len = CMSG_LEN(sizeof(int));
	*(int *)CMSG_DATA(first) = 9;
	connect_to(one, port_of(two));
	TELL(sendmsg(one, &header, 0));
	*(int *)CMSG_DATA(first) = 999;
	TELL(sendmsg(one, &header, 0));
}

static void datagram_multicast(void)
{
	struct ip_mreqn group = {.imr_address = {htonl(INADDR_LOOPBACK)}};
	int fd = udp_socket();

	inet_aton("239.1.2.3", &group.imr_multiaddr);
	TELL(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof(group)));
	TELL(setsockopt(fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &group, sizeof(group)));
	TELL(setsockopt(fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &group, sizeof(group)));
}

static void datagram_through_a_copy(void)
{
	int fd = udp_socket(), copy = dup(fd);
	char text[8];

	to(fd, peer4);
	close(fd);
	TELL(send(copy, "copy", 4, 0));
	TELL(recv(copy, text, sizeof(text), 0));
}

/* Errors that come from the network: port unreachable (RFC 792). */

static int refused_datagram(void)
{
	int fd = udp_socket();

	to(fd, beside_peer());
	send(fd, "x", 1, 0);
	return fd;
}

static void refused_datagram_poll(void)
{
	int fd = refused_datagram();

	events(fd, POLLERR);
	say("%d", so_error(fd));
	say("%d", so_error(fd));
	events(fd, 0);
}

static void refused_datagram_recv(void)
{
	int fd = refused_datagram();
	char byte;

	pause_ms(100);
	TELL(recv(fd, &byte, 1, 0));
	TELL(recv(fd, &byte, 1, MSG_DONTWAIT));
}

static void refused_datagram_recvfrom(void)
{
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	int fd = refused_datagram();
	char byte;

	pause_ms(100);
	TELL(recvfrom(fd, &byte, 1, 0, (struct sockaddr *)&from, &len));
	TELL(recvfrom(fd, &byte, 1, MSG_DONTWAIT, (struct sockaddr *)&from, &len));
}

static void refused_datagram_waited_for(void)
{
	struct iovec piece = {(char[8]){0}, 8};
	struct msghdr header = {.msg_iov = &piece, .msg_iovlen = 1};
	int fd = refused_datagram();

	TELL(recvmsg(fd, &header, 0));
	TELL(recvmsg(fd, &header, MSG_DONTWAIT));
}

static void refused_datagram_send(void)
{
	int fd = refused_datagram();

	pause_ms(100);
	TELL(send(fd, "x", 1, 0));
}

static void refused_datagram_sendmsg(void)
{
	struct iovec piece = {"x", 1};
	struct msghdr header = {.msg_iov = &piece, .msg_iovlen = 1};
	int fd = refused_datagram();

	pause_ms(100);
	TELL(sendmsg(fd, &header, 0));
}

static void refused_datagram_then_connected(void)
{
	int fd = refused_datagram();
	char text[8];

	pause_ms(100);
	so_error(fd);
	TELL(to(fd, peer4));
	TELL(send(fd, "better", 6, 0));
	TELL(recv(fd, text, sizeof(text), 0));
}

/* An error of the network is the connected socket's, not the unconnected one's. */
static void refused_datagram_unconnected(void)
{
	int fd = udp_socket();

	send_to(fd, "x", beside_peer());
	pause_ms(100);
	events(fd, 0);
	say("%d", so_error(fd));
}

static void refused_datagram_in_the_error_queue(void)
{
	int fd = udp_socket(), on = 1;
	char text[16], room[512];
	struct sockaddr_in from;
	struct iovec piece = {text, sizeof(text)};
	struct msghdr header = {.msg_iov = &piece,
				.msg_iovlen = 1,
				.msg_name = &from,
				.msg_namelen = sizeof(from),
				.msg_control = room,
				.msg_controllen = sizeof(room)};
	struct sock_extended_err *error;

	TELL(setsockopt(fd, IPPROTO_IP, IP_RECVERR, &on, sizeof(on)));
	send_to(fd, "x", beside_peer());
	events(fd, POLLERR);
	TELL(recvmsg(fd, &header, MSG_ERRQUEUE));
	if (!CMSG_FIRSTHDR(&header))
		return;
	error = (struct sock_extended_err *)CMSG_DATA(CMSG_FIRSTHDR(&header));
	say("%x %d %d %d", header.msg_flags, error->ee_errno, error->ee_origin, error->ee_type);
	TELL(recvmsg(fd, &header, MSG_ERRQUEUE));
}

static void closed_datagram_port_refuses(void)
{
	int one = bound_udp(), two = bound_udp();

	connect_to(one, port_of(two));
	close(two);
	TELL(send(one, "x", 1, 0));
	pause_ms(50);
	say("%d", so_error(one));
}

const struct behaviour datagrams[] = {
	BEHAVIOUR(datagram_poll),
	BEHAVIOUR(datagram_echo),
	BEHAVIOUR(datagram_connected),
	BEHAVIOUR(datagram_by_ipv6),
	BEHAVIOUR(datagram_unspecified),
	BEHAVIOUR(datagram_from_others_is_not_heard),
	BEHAVIOUR(datagram_without_destination),
	BEHAVIOUR(datagram_written_without_destination),
	BEHAVIOUR(datagram_message_without_destination),
	BEHAVIOUR(datagram_of_no_length),
	BEHAVIOUR(datagram_too_long),
	BEHAVIOUR(datagram_cut),
	BEHAVIOUR(datagram_unread),
	BEHAVIOUR(datagram_order),
	BEHAVIOUR(datagrams_at_once),
	BEHAVIOUR(datagrams_all_waited_for),
	BEHAVIOUR(datagram_timeout),
	BEHAVIOUR(shutdown_wakes_recv_of_datagrams),
	BEHAVIOUR(shutdown_wakes_recvfrom_of_datagrams),
	BEHAVIOUR(datagram_broadcast),
	BEHAVIOUR(datagram_with_its_address),
	BEHAVIOUR(datagram_with_its_hops),
	BEHAVIOUR(datagram_with_control_sent),
	BEHAVIOUR(datagram_multicast),
	BEHAVIOUR(datagram_through_a_copy),
	END,
};

const struct behaviour datagram_errors[] = {
	BEHAVIOUR(refused_datagram_poll),
	BEHAVIOUR(refused_datagram_recv),
	BEHAVIOUR(refused_datagram_recvfrom),
	BEHAVIOUR(refused_datagram_waited_for),
	BEHAVIOUR(refused_datagram_send),
	BEHAVIOUR(refused_datagram_sendmsg),
	BEHAVIOUR(refused_datagram_then_connected),
	BEHAVIOUR(refused_datagram_unconnected),
	BEHAVIOUR(refused_datagram_in_the_error_queue),
	BEHAVIOUR(closed_datagram_port_refuses),
	END,
};
