// SPDX-License-Identifier: MIT OR Apache-2.0
/* What sockets are asked for and told; interfaces and times by ioctl. */
#include "behaviours.h"

static int value(int fd, int level, int option)
{
	int got = -1;
	socklen_t len = sizeof(got);

	return getsockopt(fd, level, option, &got, &len) ? -errno : got;
}

/* As it is at first, what setting says, as it is then. */
static void there_and_back(int fd, int level, int option, int wanted)
{
	say("%d", value(fd, level, option));
	TELL(setsockopt(fd, level, option, &wanted, sizeof(wanted)));
	say("%d,", value(fd, level, option));
}

static void options_of_sockets(void)
{
	int fd = tcp(0), from = listener(0);

	there_and_back(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	there_and_back(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	there_and_back(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	there_and_back(fd, SOL_SOCKET, SO_BROADCAST, 1);
	there_and_back(fd, SOL_SOCKET, SO_OOBINLINE, 1);
	there_and_back(fd, SOL_SOCKET, SO_DONTROUTE, 1);
	there_and_back(fd, SOL_SOCKET, SO_PRIORITY, 3);
	there_and_back(fd, SOL_SOCKET, SO_TIMESTAMP, 1);
	there_and_back(fd, SOL_SOCKET, SO_RCVLOWAT, 5);
	there_and_back(fd, SOL_SOCKET, SO_SNDLOWAT, 5);
	say("%d %d %d", value(fd, SOL_SOCKET, SO_TYPE), value(fd, SOL_SOCKET, SO_DOMAIN),
	    value(fd, SOL_SOCKET, SO_PROTOCOL));
	say("%d %d", value(fd, SOL_SOCKET, SO_ACCEPTCONN), value(from, SOL_SOCKET, SO_ACCEPTCONN));
}

static void options_of_buffers(void)
{
	int fd = tcp(0), wanted = 20000;

	TELL(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &wanted, sizeof(wanted)));
	TELL(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &wanted, sizeof(wanted)));
	say("%d %d", value(fd, SOL_SOCKET, SO_RCVBUF), value(fd, SOL_SOCKET, SO_SNDBUF));
}

static void options_of_time(void)
{
	struct timeval limit = {.tv_sec = 3, .tv_usec = 250000}, got = {0};
	struct timeval wrong = {.tv_sec = 1, .tv_usec = 2000000};
	socklen_t len = sizeof(got);
	int fd = tcp(0);

	TELL(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)));
	getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &got, &len);
	say("%d %ld %ld", (int)len, (long)got.tv_sec, (long)got.tv_usec / 10000);
	TELL(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wrong, sizeof(wrong)));
	TELL(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, 4));
}

static void options_of_tcp(void)
{
	int fd = tcp(0);

	there_and_back(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	there_and_back(fd, IPPROTO_TCP, TCP_CORK, 1);
	there_and_back(fd, IPPROTO_TCP, TCP_KEEPIDLE, 20);
	there_and_back(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
	there_and_back(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
	there_and_back(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 5000);
}

static void options_of_tcp_seldom_used(void)
{
	int fd = tcp(0);

	there_and_back(fd, IPPROTO_TCP, TCP_SYNCNT, 3);
	there_and_back(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, 3);
	there_and_back(fd, IPPROTO_TCP, TCP_LINGER2, 10);
	there_and_back(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, 50000);
	there_and_back(fd, IPPROTO_TCP, TCP_QUICKACK, 0);
	there_and_back(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 16384);
	there_and_back(fd, IPPROTO_TCP, TCP_KEEPIDLE, 0);
}

static void options_of_segments(void)
{
	int fd = tcp(0), wanted = 900;

	TELL(setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &wanted, sizeof(wanted)));
	to(fd, peer4);
	say("%d", value(fd, IPPROTO_TCP, TCP_MAXSEG) <= 900);
}

static void options_of_fast_open(void)
{
	int fd = listener(0), queue = 5;

	TELL(setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN, &queue, sizeof(queue)));
	say("%d", value(fd, IPPROTO_TCP, TCP_FASTOPEN));
	there_and_back(tcp(0), IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1);
}

static void fast_open_connects(void)
{
	int fd = tcp(0), on = 1;

	TELL(setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &on, sizeof(on)));
	TELL(to(fd, peer4));
	TELL(write(fd, "e", 1));
	echo(fd);
}

static void congestion_control(void)
{
	char name[16] = "";
	socklen_t len = sizeof(name);
	int fd = tcp(0);

	TELL(setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4));
	TELL(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len));
	say("%s %d", name, (int)len);
	TELL(setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "nonsense", 8));
}

static void state_of_tcp(void)
{
	struct tcp_info info = {0};
	socklen_t len = 8;
	int fd = tcp(0), from = listener(0);

	TELL(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len));
	say("%d %d", (int)len, info.tcpi_state);
	getsockopt(from, IPPROTO_TCP, TCP_INFO, &info, &len);
	say("%d", info.tcpi_state);
	to(fd, peer4);
	getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len);
	say("%d", info.tcpi_state);
	shutdown(fd, SHUT_WR);
	/* Over MPTCP the TCP connection ends after the DATA_FIN was acknowledged. */
	for (int i = 0; i < 300 && info.tcpi_state == TCP_ESTABLISHED; i++) {
		usleep(10000);
		len = sizeof(info);
		getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len);
	}
	say("%d", info.tcpi_state == TCP_FIN_WAIT1 || info.tcpi_state == TCP_FIN_WAIT2 ||
			  info.tcpi_state == TCP_TIME_WAIT || info.tcpi_state == TCP_CLOSE);
}

static void options_of_ip(void)
{
	int fd = tcp(0), udp = udp_socket();

	there_and_back(fd, IPPROTO_IP, IP_TOS, 0x10);
	there_and_back(fd, IPPROTO_IP, IP_TTL, 9);
	there_and_back(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT);
	there_and_back(fd, IPPROTO_IP, IP_RECVERR, 1);
	there_and_back(fd, IPPROTO_IP, IP_FREEBIND, 1);
	there_and_back(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
	there_and_back(udp, IPPROTO_IP, IP_MULTICAST_TTL, 4);
	there_and_back(udp, IPPROTO_IP, IP_MULTICAST_LOOP, 0);
	there_and_back(fd, IPPROTO_IP, IP_TTL, 300);
}

static void options_of_ipv6(void)
{
	int fd = socket(AF_INET6, SOCK_STREAM, 0);

	there_and_back(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	there_and_back(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 9);
	there_and_back(fd, IPPROTO_IPV6, IPV6_TCLASS, 0x10);
	there_and_back(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
	there_and_back(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, 0);
}

static void path_mtu(void)
{
	int fd = tcp(0);

	say("%d", value(fd, IPPROTO_IP, IP_MTU));
	to(fd, peer4);
	say("%d", value(fd, IPPROTO_IP, IP_MTU));
}

static void options_unknown(void)
{
	int fd = tcp(0), on = 1;
	socklen_t negative = -1, len = sizeof(on);
	char byte = 0;

	say("%d %d", value(fd, 12345, 1), value(fd, IPPROTO_TCP, 999));
	TELL(setsockopt(fd, SOL_SOCKET, 9999, &on, sizeof(on)));
	TELL(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, 1));
	TELL(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, (void *)8, 4));
	TELL(getsockopt(fd, SOL_SOCKET, SO_TYPE, &on, &negative));
	TELL(getsockopt(fd, SOL_SOCKET, SO_TYPE, (void *)8, &len));
	len = 1;
	TELL(getsockopt(fd, SOL_SOCKET, SO_TYPE, &byte, &len));
	say("%d %d", (int)len, byte);
	TELL(getsockopt(0, SOL_SOCKET, SO_TYPE, &on, &len));
}

static void peek_offset(void)
{
	int fd = to_peer(HELLO), offset = 2;
	char text[8] = "";

	TELL(setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &offset, sizeof(offset)));
	events(fd, POLLIN);
	TELL(recv(fd, text, 2, MSG_PEEK));
	say("%s", text);
}

static void options_are_kept_by_a_connection(void)
{
	int fd = tcp(0), on = 1, idle = 33;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	to(fd, peer4);
	say("%d %d", value(fd, IPPROTO_TCP, TCP_NODELAY), value(fd, IPPROTO_TCP, TCP_KEEPIDLE));
}

/* The interface that has our address of the peer's network. */
static struct ifreq to_the_peer(void)
{
	struct ifreq request = {0};

	strcpy(request.ifr_name, "c0");
	return request;
}

static void interface_address(void)
{
	struct ifreq request = to_the_peer();
	int fd = tcp(0);

	TELL(ioctl(fd, SIOCGIFADDR, &request));
	say("%s", inet_ntoa(((struct sockaddr_in *)&request.ifr_addr)->sin_addr));
	TELL(ioctl(fd, SIOCGIFNETMASK, &request));
	say("%s", inet_ntoa(((struct sockaddr_in *)&request.ifr_addr)->sin_addr));
	strcpy(request.ifr_name, "nothing0");
	TELL(ioctl(fd, SIOCGIFADDR, &request));
	TELL(ioctl(fd, SIOCGIFADDR, (void *)8));
}

static void interface_address_by_datagram(void)
{
	struct ifreq request = to_the_peer();

	TELL(ioctl(udp_socket(), SIOCGIFADDR, &request));
	say("%s", inet_ntoa(((struct sockaddr_in *)&request.ifr_addr)->sin_addr));
}

static void interface_properties(void)
{
	struct ifreq request = to_the_peer();
	int fd = udp_socket();

	TELL(ioctl(fd, SIOCGIFMTU, &request));
	say("%d", request.ifr_mtu);
	TELL(ioctl(fd, SIOCGIFFLAGS, &request));
	say("%#x", request.ifr_flags);
	TELL(ioctl(fd, SIOCGIFINDEX, &request));
	TELL(ioctl(fd, SIOCGIFNAME, &request));
	say("%s", request.ifr_name);
}

static void interface_list(void)
{
	struct ifreq requests[8];
	struct ifconf list = {.ifc_len = sizeof(requests), .ifc_req = requests};
	int i, found = 0;

	TELL(ioctl(udp_socket(), SIOCGIFCONF, &list));
	for (i = 0; i < list.ifc_len / (int)sizeof(*requests); i++)
		found += !strcmp(requests[i].ifr_name, "c0");
	say("%d", found);
}

static void time_of_the_last_packet(void)
{
	struct timeval time = {0};
	int fd = tcp(0), udp = bound_udp(), other = bound_udp();
	char text[8];

	TELL(ioctl(fd, SIOCGSTAMP, &time));
	TELL(ioctl(udp, SIOCGSTAMP, &time));
	connect_to(other, port_of(udp));
	TELL(send(other, "x", 1, 0));
	TELL(recv(udp, text, sizeof(text), 0));
	TELL(ioctl(udp, SIOCGSTAMP, &time));
	say("%d", time.tv_sec > 1500000000);
}

static void requests_unknown(void)
{
	int fd = tcp(0), number = 0;

	TELL(ioctl(fd, 0x89ff, &number));
	TELL(ioctl(fd, 0x1234, &number));
	TELL(ioctl(fd, TIOCGWINSZ, &number));
}

const struct behaviour options[] = {
	BEHAVIOUR(options_of_sockets),
	BEHAVIOUR(options_of_buffers),
	BEHAVIOUR(options_of_time),
	BEHAVIOUR(options_of_tcp),
	BEHAVIOUR(options_of_tcp_seldom_used),
	BEHAVIOUR(options_of_segments),
	BEHAVIOUR(options_of_fast_open),
	BEHAVIOUR(fast_open_connects),
	BEHAVIOUR(congestion_control),
	BEHAVIOUR(state_of_tcp),
	BEHAVIOUR(options_of_ip),
	BEHAVIOUR(options_of_ipv6),
	BEHAVIOUR(path_mtu),
	BEHAVIOUR(options_unknown),
	BEHAVIOUR(peek_offset),
	BEHAVIOUR(options_are_kept_by_a_connection),
	END,
};

const struct behaviour interfaces[] = {
	BEHAVIOUR(interface_address),
	BEHAVIOUR(interface_address_by_datagram),
	BEHAVIOUR(interface_properties),
	BEHAVIOUR(interface_list),
	BEHAVIOUR(time_of_the_last_packet),
	BEHAVIOUR(requests_unknown),
	END,
};
