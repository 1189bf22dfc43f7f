// SPDX-License-Identifier: MIT OR Apache-2.0
/* Messages on a connection: flags, pieces, addresses; urgent data. */
#include "behaviours.h"

static void peek(void)
{
	int fd = to_peer(HELLO);
	char text[16] = "";

	TELL(recv(fd, text, 2, MSG_PEEK));
	TELL(recv(fd, text, 16, MSG_PEEK));
	TELL(recv(fd, text, 16, 0));
	say("%s", text);
	TELL(recv(fd, text, 16, MSG_PEEK | MSG_DONTWAIT));
}

static void wait_for_all(void)
{
	int fd = to_peer(IN_PARTS);
	char text[64];

	TELL(recv(fd, text, 35, MSG_WAITALL));
}

static void peek_and_wait_for_all(void)
{
	int fd = to_peer(IN_PARTS);
	char text[64] = "";

	TELL(recv(fd, text, 35, MSG_PEEK | MSG_WAITALL));
	say("%.35s", text);
	TELL(recv(fd, text, 64, 0));
}

static void peek_and_wait_for_all_by_message(void)
{
	int fd = to_peer(IN_PARTS);
	char text[64] = "";
	struct iovec pieces[2] = {{text, 20}, {text + 20, 15}};
	struct msghdr header = {.msg_iov = pieces, .msg_iovlen = 2};

	TELL(recvmsg(fd, &header, MSG_PEEK | MSG_WAITALL));
	TELL(recv(fd, text, 64, 0));
}

static void wait_for_all_until_the_end(void)
{
	int fd = to_peer(HALF);
	char text[64];

	TELL(recv(fd, text, 64, MSG_PEEK | MSG_WAITALL));
	TELL(recv(fd, text, 64, MSG_WAITALL));
	TELL(recv(fd, text, 64, MSG_WAITALL));
}

static void thrown_away(void)
{
	int fd = to_peer(HELLO);
	char text[16] = "......";

	events(fd, POLLIN);
	TELL(recv(fd, text, 3, MSG_TRUNC));
	TELL(recv(fd, text + 3, 2, 0));
	say("%s", text);
}

static void message_flags_unknown(void)
{
	int fd = to_peer(ECHO);
	char text[16] = "";

	TELL(send(fd, "flags", 5, MSG_MORE | MSG_CONFIRM | MSG_DONTROUTE));
	TELL(send(fd, "!", 1, MSG_EOR));
	TELL(recv(fd, text, 6, MSG_WAITALL));
	say("%s", text);
	TELL(recv(fd, text, 1, MSG_ERRQUEUE));
}

static void message_with_address(void)
{
	int fd = to_peer(ECHO);
	struct sockaddr_in elsewhere = beside_peer();
	struct iovec piece = {"two", 3};
	struct msghdr header = {.msg_name = &elsewhere,
				.msg_namelen = sizeof(elsewhere),
				.msg_iov = &piece,
				.msg_iovlen = 1};
	char text[16] = "";

	TELL(sendto(fd, "one", 3, 0, (struct sockaddr *)&elsewhere, sizeof(elsewhere)));
	TELL(sendmsg(fd, &header, 0));
	TELL(recv(fd, text, 6, MSG_WAITALL));
	say("%s", text);
}

static void much_with_address(void)
{
	static char much[1 << 20];
	int fd = to_peer(SINK);

	TELL(sendto(fd, much, sizeof(much), 0, (struct sockaddr *)&peer4, sizeof(peer4)));
}

static void message_from_address(void)
{
	int fd = to_peer(HELLO);
	struct sockaddr_in from = {.sin_port = 7};
	socklen_t len = sizeof(from);
	char text[16];

	TELL(recvfrom(fd, text, 3, 0, (struct sockaddr *)&from, &len));
	say("%d %d", (int)len, from.sin_port);
	TELL(recvfrom(fd, text, 16, MSG_DONTWAIT, (struct sockaddr *)&from, &len));
	TELL(recvfrom(fd, text, 16, MSG_DONTWAIT, (struct sockaddr *)&from, &len));
}

static void message_in_pieces(void)
{
	int fd = to_peer(ECHO);
	char a[3], b[16], control[64];
	struct iovec out[3] = {{"pie", 3}, {"", 0}, {"ces", 3}}, in[2] = {{a, 3}, {b, 16}};
	struct msghdr header = {.msg_iov = out, .msg_iovlen = 3};
	struct sockaddr_in from;

	TELL(sendmsg(fd, &header, 0));
	pause_ms(100);
	header = (struct msghdr){.msg_iov = in,
				 .msg_iovlen = 2,
				 .msg_name = &from,
				 .msg_namelen = sizeof(from),
				 .msg_control = control,
				 .msg_controllen = sizeof(control)};
	TELL(recvmsg(fd, &header, 0));
	say("%.3s %.3s %d %d %x", a, b, (int)header.msg_namelen, (int)header.msg_controllen,
	    header.msg_flags);
	TELL(writev(fd, out, 3));
	pause_ms(100);
	TELL(readv(fd, in, 2));
}

static void message_arguments(void)
{
	int fd = to_peer(SINK);
	struct msghdr header = {.msg_iov = (struct iovec *)8, .msg_iovlen = 1};
	static struct iovec many[1025];

	TELL(send(fd, (void *)8, 1, 0));
	TELL(sendmsg(fd, &header, 0));
	TELL(sendmsg(fd, (struct msghdr *)8, 0));
	header = (struct msghdr){.msg_iov = many, .msg_iovlen = 1025};
	TELL(sendmsg(fd, &header, 0));
	TELL(recvmsg(fd, &header, MSG_DONTWAIT));
}

static void many_messages(void)
{
	int fd = to_peer(ECHO);
	char text[2][8] = {{0}};
	struct iovec out[2] = {{"many", 4}, {"more", 4}}, in[2] = {{text[0], 4}, {text[1], 4}};
	struct mmsghdr messages[2] = {{.msg_hdr = {.msg_iov = out, .msg_iovlen = 1}},
				      {.msg_hdr = {.msg_iov = out + 1, .msg_iovlen = 1}}};

	TELL(sendmmsg(fd, messages, 2, 0));
	say("%u %u", messages[0].msg_len, messages[1].msg_len);
	messages[0].msg_hdr.msg_iov = in;
	messages[1].msg_hdr.msg_iov = in + 1;
	pause_ms(100);
	TELL(recvmmsg(fd, messages, 2, 0, NULL));
	say("%s %s", text[0], text[1]);
}

static int unsent(int fd)
{
	int bytes = -1;

	ioctl(fd, SIOCOUTQNSD, &bytes);
	return bytes;
}

static void nodelay(int fd)
{
	int on = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	pause_ms(50);
}

/* What has more to come waits for it in the stack, at most 0.2 s. */
static void many_messages_held_back(void)
{
	int fd = to_peer(SINK);
	struct iovec out[2] = {{"many", 4}, {"more", 4}};
	struct mmsghdr messages[2] = {{.msg_hdr = {.msg_iov = out, .msg_iovlen = 1}},
				      {.msg_hdr = {.msg_iov = out + 1, .msg_iovlen = 1}}};

	nodelay(fd);
	TELL(sendmmsg(fd, messages, 2, MSG_MORE));
	say("%u %u %d", messages[0].msg_len, messages[1].msg_len, unsent(fd));
	TELL(sendmmsg(fd, messages, 2, 0));
	pause_ms(20);
	say("%d", unsent(fd));
}

static void splice_held_back(void)
{
	int fd = to_peer(SINK), ends[2];

	nodelay(fd);
	if (pipe(ends) || write(ends[1], "first and last", 14) != 14)
		return;
	TELL(splice(ends[0], NULL, fd, NULL, 6, SPLICE_F_MORE));
	say("%d", unsent(fd));
	/* No more than the pipe has: the length is not what comes. */
	TELL(splice(ends[0], NULL, fd, NULL, 4000, SPLICE_F_MORE));
	say("%d", unsent(fd));
	TELL(write(fd, "!", 1));
	pause_ms(20);
	say("%d", unsent(fd));
}

static void no_signal(void)
{
	int fd = to_peer(SINK);

	shutdown(fd, SHUT_WR);
	TELL(send(fd, "x", 1, MSG_NOSIGNAL));
	say("SIGPIPE %d", sigpipes());
	TELL(send(fd, "x", 1, 0));
	say("SIGPIPE %d", sigpipes());
}

/* Urgent data: RFC 9293, section 3.8.5, as Linux has it. */

static void urgent_to_the_peer(void)
{
	int fd = to_peer(READ_URGENT);
	char text[64] = "";

	TELL(write(fd, "before", 6));
	TELL(send(fd, "!", 1, MSG_OOB));
	TELL(read(fd, text, sizeof(text) - 1));
	say("%s", text);
}

static void urgent_of_some_bytes(void)
{
	int fd = to_peer(READ_URGENT);
	char text[64] = "";

	TELL(send(fd, "some?", 5, MSG_OOB));
	TELL(read(fd, text, sizeof(text) - 1));
	say("%s", text);
}

static void urgent_from_the_peer(void)
{
	int fd = to_peer(SEND_URGENT), mark = -1;
	char text[16] = "", byte = 0;

	events(fd, POLLPRI);
	pause_ms(100);
	TELL(recv(fd, &byte, 1, MSG_OOB));
	say("%c", byte);
	TELL(ioctl(fd, SIOCATMARK, &mark));
	say("%d", mark);
	TELL(read(fd, text, sizeof(text)));
	ioctl(fd, SIOCATMARK, &mark);
	say("%s %d", text, mark);
	memset(text, 0, sizeof(text));
	TELL(read(fd, text, sizeof(text)));
	say("%s", text);
}

static void urgent_read_twice(void)
{
	int fd = to_peer(SEND_URGENT);
	char byte = 0;

	events(fd, POLLPRI);
	pause_ms(100);
	TELL(recv(fd, &byte, 1, MSG_OOB | MSG_PEEK));
	TELL(recv(fd, &byte, 1, MSG_OOB));
	TELL(recv(fd, &byte, 1, MSG_OOB));
}

static void urgent_in_line(void)
{
	int fd = tcp(0), on = 1, mark = -1;
	char text[16] = "";

	TELL(setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on)));
	to(fd, peer4);
	TELL(write(fd, "u", 1));
	pause_ms(200);
	TELL(read(fd, text, sizeof(text)));
	ioctl(fd, SIOCATMARK, &mark);
	say("%s %d", text, mark);
	memset(text, 0, sizeof(text));
	TELL(read(fd, text, sizeof(text)));
	say("%s", text);
	TELL(recv(fd, text, 1, MSG_OOB));
}

static void urgent_without_any(void)
{
	int fd = to_peer(HELLO);
	char byte;

	events(fd, POLLIN);
	TELL(recv(fd, &byte, 1, MSG_OOB));
	TELL(recv(fd, &byte, 1, MSG_OOB | MSG_DONTWAIT));
}

static volatile sig_atomic_t urgencies;

static void is_urgent(int signal)
{
	(void)signal;
	urgencies++;
}

static void urgent_signal(void)
{
	int client, server;

	connected(&client, &server);
	signal(SIGURG, is_urgent);
	TELL(fcntl(server, F_SETOWN, getpid()));
	TELL(send(client, "!", 1, MSG_OOB));
	events(server, POLLPRI);
	say("%d", urgencies > 0);
}

static void urgent_with_a_reader_behind(void)
{
	int client, server;
	char text[16] = "", byte = 0;

	connected(&client, &server);
	TELL(write(client, "ab", 2));
	TELL(send(client, "!", 1, MSG_OOB));
	TELL(write(client, "cd", 2));
	pause_ms(100);
	TELL(read(server, text, sizeof(text)));
	TELL(read(server, text + 2, sizeof(text) - 2));
	say("%s", text);
	TELL(recv(server, &byte, 1, MSG_OOB));
}

const struct behaviour messaging[] = {
	BEHAVIOUR(peek),
	BEHAVIOUR(wait_for_all),
	BEHAVIOUR(peek_and_wait_for_all),
	BEHAVIOUR(peek_and_wait_for_all_by_message),
	BEHAVIOUR(wait_for_all_until_the_end),
	BEHAVIOUR(thrown_away),
	BEHAVIOUR(message_flags_unknown),
	BEHAVIOUR(message_with_address),
	BEHAVIOUR(much_with_address),
	BEHAVIOUR(message_from_address),
	BEHAVIOUR(message_in_pieces),
	BEHAVIOUR(message_arguments),
	BEHAVIOUR(many_messages),
	BEHAVIOUR(many_messages_held_back),
	BEHAVIOUR(splice_held_back),
	BEHAVIOUR(no_signal),
	END,
};

const struct behaviour urgent[] = {
	BEHAVIOUR(urgent_to_the_peer),
	BEHAVIOUR(urgent_of_some_bytes),
	BEHAVIOUR(urgent_from_the_peer),
	BEHAVIOUR(urgent_read_twice),
	BEHAVIOUR(urgent_in_line),
	BEHAVIOUR(urgent_without_any),
	BEHAVIOUR(urgent_signal),
	BEHAVIOUR(urgent_with_a_reader_behind),
	END,
};
