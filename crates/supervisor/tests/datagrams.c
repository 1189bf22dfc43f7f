// SPDX-License-Identifier: MIT OR Apache-2.0
/* Datagrams: where they come from, how long they are, how errors come back. */
#include "sockets.h"

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
	struct sockaddr_in to = loopback(port_of(two)), from = {0};
	socklen_t len = sizeof(from);
	char text[64] = "";
	struct iovec buffer = {text, 4};
	struct msghdr header = {.msg_name = &from,
				.msg_namelen = sizeof(from),
				.msg_iov = &buffer,
				.msg_iovlen = 1};
	struct timeval limit = {.tv_usec = 50000};

	SAY(sendto(one, "first", 5, 0, (struct sockaddr *)&to, sizeof(to)));
	SAY(sendto(one, "", 0, 0, (struct sockaddr *)&to, sizeof(to)));
	SAY(sendto(one, "third one", 9, 0, (struct sockaddr *)&to, sizeof(to)));
	SAY(sendto(one, "fourth", 6, 0, (struct sockaddr *)&to, sizeof(to)));
	see("there", two, POLLIN);
	SAY(recvfrom(two, text, sizeof(text), MSG_PEEK, (struct sockaddr *)&from, &len));
	SAY(recvfrom(two, text, sizeof(text), 0, (struct sockaddr *)&from, &len));
	printf("  '%s' from the right port %d, length %d\n", text,
	       ntohs(from.sin_port) == port_of(one), (int)len);
	SAY(read(two, text, sizeof(text)));
	SAY(recvmsg(two, &header, 0));
	printf("  %.4s, cut %d, name %d\n", text, header.msg_flags & MSG_TRUNC,
	       (int)header.msg_namelen);
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
	struct pollfd error = {.fd = one, .events = POLLIN};
	struct iovec buffers[2] = {{"ab", 2}, {"cde", 3}}, in[2] = {{text, 8}, {text + 8, 8}};
	struct mmsghdr out[2] = {{.msg_hdr = {.msg_iov = buffers, .msg_iovlen = 1}},
				 {.msg_hdr = {.msg_iov = buffers, .msg_iovlen = 2}}};
	struct mmsghdr got[2] = {{.msg_hdr = {.msg_iov = in, .msg_iovlen = 1}},
				 {.msg_hdr = {.msg_iov = in + 1, .msg_iovlen = 1}}};

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

/* The filter of a group, asked for with far more room than it needs. */
static void sources(void)
{
	struct group_source_req member = {.gsr_interface = 1};
	struct sockaddr_in *group = (void *)&member.gsr_group, *source = (void *)&member.gsr_source;
	const int many = 1000;
	socklen_t len = GROUP_FILTER_SIZE(many);
	struct group_filter *filter = calloc(1, len);
	int fd = udp(), i;

	*group = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(0xe8010101)}};
	for (i = 1; i <= 3; i++) {
		*source = (struct sockaddr_in){.sin_family = AF_INET,
					       .sin_addr = {htonl(0xc0000200 + i)}};
		SAY(setsockopt(fd, IPPROTO_IP, MCAST_JOIN_SOURCE_GROUP, &member, sizeof(member)));
	}
	filter->gf_interface = 1;
	filter->gf_group = member.gsr_group;
	filter->gf_numsrc = many;
	SAY(getsockopt(fd, IPPROTO_IP, MCAST_MSFILTER, filter, &len));
	printf("  %u of them, length %d\n", filter->gf_numsrc, (int)len);
	for (i = 0; i < 3; i++)
		printf("  %s\n", inet_ntoa(((struct sockaddr_in *)&filter->gf_slist[i])->sin_addr));
	free(filter);
	close(fd);
}

/* Parts of one datagram, by calls with an address and without. */
static void in_parts(void)
{
	int one = udp(), two = udp();
	struct sockaddr_in to = loopback(port_of(two));
	struct iovec part = {"ef", 2};
	struct msghdr header = {
		.msg_name = &to, .msg_namelen = sizeof(to), .msg_iov = &part, .msg_iovlen = 1};
	char text[16] = "";

	SAY(sendto(one, "ab", 2, MSG_MORE, (struct sockaddr *)&to, sizeof(to)));
	SAY(sendto(one, "cd", 2, MSG_MORE, (struct sockaddr *)&to, sizeof(to)));
	SAY(sendmsg(one, &header, 0));
	SAY(recv(two, text, sizeof(text), 0));
	printf("  '%s'\n", text);
	connect_to(one, port_of(two));
	SAY(send(one, "ghi", 3, MSG_MORE));
	SAY(send(one, "j", 1, 0));
	SAY(recv(two, text, sizeof(text), 0));
	SAY(recv(two, text, sizeof(text), MSG_DONTWAIT));
	close(one);
	close(two);
}

int main(void)
{
	begin();
	RUN(datagrams);
	RUN(connected_datagrams);
	RUN(sources);
	RUN(in_parts);
	return 0;
}
