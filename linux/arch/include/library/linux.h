/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Linux's network stack as a library: what the host gives and what it may call.
 *
 * One thread at a time, and never from within a host function (nic_transmit,
 * socket_ready, ...): what these learn is to be acted on after the call that
 * led to them. Functions return 0 or a count, or a negative errno.
 */
#ifndef TRANSOM_LIBRARY_LINUX_H
#define TRANSOM_LIBRARY_LINUX_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#endif

#ifdef __KERNEL__
#define LIBRARY_CALL __attribute__((visibility("default")))
#else
#define LIBRARY_CALL
#endif

/* "No timer is set", as a time. */
#define LINUX_NEVER (~(uint64_t)0)

/* Of 256 bits: the whole of the library's randomness. */
#define LINUX_SEED_BYTES 32

/* A piece of memory, as struct iovec. */
struct linux_piece {
	void *at;
	size_t size;
};

/*
 * Before each frame, as the kernel's struct virtio_net_hdr (little-endian):
 * what of the checksum and of the segmentation is left to the other side.
 */
struct linux_offload {
	uint8_t flags;	   /* VIRTIO_NET_HDR_F_NEEDS_CSUM 1, _DATA_VALID 2 */
	uint8_t gso_type;  /* VIRTIO_NET_HDR_GSO_NONE 0, _TCPV4 1, _TCPV6 4, _UDP_L4 5, _ECN 0x80 */
	uint16_t hdr_len;  /* bytes of headers */
	uint16_t gso_size; /* bytes of payload of each segment */
	uint16_t csum_start;
	uint16_t csum_offset;
};

/* bpf/event.h: 128 bytes, the same as the monitor's. */
struct tx_event;

/* A packet in the library's own memory, on its way from one of its NICs to another. */
struct linux_frame;

/* A host: a network namespace, with interfaces, addresses, routes and sysctls of its own. */
struct linux_net;

struct linux_host_ops {
	/* Given back as the first argument of each function. */
	void *host;

	/* All the memory of the library, aligned to 4096 bytes. */
	void *memory;
	size_t memory_size;

	uint8_t seed[LINUX_SEED_BYTES];

	/* Nanoseconds that never go back, and nanoseconds since 1970. */
	uint64_t (*clock)(void *host);
	uint64_t (*wall_clock)(void *host);

	/*
	 * Return when the clock has reached `until`. Called only where the
	 * library itself must wait amid a call: removing a NIC, for example.
	 */
	void (*wait)(void *host, uint64_t until);

	/* Text of the kernel's log, whole lines. */
	void (*console)(void *host, const char *text, size_t size);

	/* The library cannot go on. Must not return. */
	void (*panic)(void *host, const char *why);

	/* Something changed for this socket: ask linux_poll(). */
	void (*socket_ready)(void *host, uint64_t socket);

	/*
	 * A frame leaves. 0: taken (or dropped). Other: no room, it is kept and
	 * nothing more is sent until linux_nic_wake().
	 */
	int (*nic_transmit)(void *host, uint64_t nic, const struct linux_piece *pieces,
			    unsigned int count, const struct linux_offload *offload);

	/*
	 * A frame leaves a NIC with LINUX_NIC_FRAMES: it is the host's from now on,
	 * until linux_nic_deliver() or linux_frame_free(). Not 0: this one is taken,
	 * but nothing more is sent until linux_nic_wake().
	 */
	int (*frame_transmit)(void *host, uint64_t nic, struct linux_frame *frame);

	/*
	 * An event of a TCP connection, after linux_trace(1); may be NULL. Times
	 * are the clock's, `tgid` is 0.
	 */
	void (*trace)(void *host, const struct tx_event *event);
};

/*
 * Boots until all is idle. The table must stay. -EBUSY: it runs already.
 * -ENOMEM: less memory than the kernel needs. After linux_halt() the next boot
 * begins from nothing.
 */
LIBRARY_CALL int linux_boot(const struct linux_host_ops *ops, const char *command_line);

/* Forgets all at once, without a word to the network; the memory may be freed. */
LIBRARY_CALL void linux_halt(void);

/*
 * Runs all that is due: timers, received frames, threads. Returns when it
 * wants to be called again at the latest: a time of the host's clock.
 */
LIBRARY_CALL uint64_t linux_run(void);

/*
 * Keeps the kernel's tick (4 ms) also while nothing is due. Stopping and
 * restarting it costs more than a packet, for a host that has thousands of
 * packets in a tick of simulated time.
 */
LIBRARY_CALL void linux_keep_tick(int on);

/*
 * Hosts. One kernel has as many as there is memory for: some 200 kB each. What
 * follows (sockets, /proc, new NICs) is of the host that is in use; NULL is the
 * first, which is there from the boot. -ENOMEM.
 */
LIBRARY_CALL int linux_net_add(struct linux_net **made);
LIBRARY_CALL void linux_net_use(struct linux_net *net);

/*
 * Sockets. They never block: what would is -EAGAIN, a connect -EINPROGRESS.
 * `cookie` is what socket_ready() is called with.
 */
struct linux_socket;

/* As struct msghdr of 64-bit Linux. */
struct linux_message {
	void *name;
	uint32_t name_size;
	struct linux_piece *pieces;
	size_t count;
	void *control;
	size_t control_size;
	uint32_t flags; /* out: MSG_TRUNC, ... */
};

LIBRARY_CALL int linux_socket(int family, int type, int protocol, uint64_t cookie,
			      struct linux_socket **made);
LIBRARY_CALL int linux_bind(struct linux_socket *s, const void *address, int size);
LIBRARY_CALL int linux_connect(struct linux_socket *s, const void *address, int size);
LIBRARY_CALL int linux_listen(struct linux_socket *s, int backlog);
LIBRARY_CALL int linux_accept(struct linux_socket *s, uint64_t cookie, struct linux_socket **made);
LIBRARY_CALL int linux_shutdown(struct linux_socket *s, int how);
LIBRARY_CALL void linux_close(struct linux_socket *s);
LIBRARY_CALL ssize_t linux_send(struct linux_socket *s, struct linux_message *m, int flags);
LIBRARY_CALL ssize_t linux_receive(struct linux_socket *s, struct linux_message *m, int flags);
/* Writes so many zeros, of one page and without copying; reads so many bytes and forgets them. */
LIBRARY_CALL ssize_t linux_send_zeros(struct linux_socket *s, size_t size);
LIBRARY_CALL ssize_t linux_discard(struct linux_socket *s, size_t size);
LIBRARY_CALL int linux_setsockopt(struct linux_socket *s, int level, int name, const void *value,
				  int size);
LIBRARY_CALL int linux_getsockopt(struct linux_socket *s, int level, int name, void *value,
				  int *size);
/* The greatest congestion window of a TCP socket, segments; of a listener: of what it accepts. */
LIBRARY_CALL int linux_cwnd_clamp(struct linux_socket *s, uint32_t segments);
/* `size` of the room in, of the address out. */
LIBRARY_CALL int linux_getsockname(struct linux_socket *s, void *address, int *size);
LIBRARY_CALL int linux_getpeername(struct linux_socket *s, void *address, int *size);
LIBRARY_CALL int linux_ioctl(struct linux_socket *s, unsigned int command, void *argument);
/* EPOLL bits that hold now. */
LIBRARY_CALL uint32_t linux_poll(struct linux_socket *s);

/* Files below /proc: sysctls ("sys/net/ipv4/..."), counters ("net/snmp"). */
LIBRARY_CALL ssize_t linux_proc_read(const char *path, void *to, size_t size);
LIBRARY_CALL ssize_t linux_proc_write(const char *path, const void *from, size_t size);

/* Events of TCP connections to host->trace(): on or off. -EINVAL: there is no such function. */
LIBRARY_CALL int linux_trace(int on);

/* NICs. */
struct linux_nic;

#define LINUX_NIC_RAW_IP 1   /* no Ethernet: frames are IP packets (cellular) */
#define LINUX_NIC_CHECKSUM 2 /* the host completes checksums of frames that leave */
#define LINUX_NIC_TSO 4	     /* and cuts TCP segments; needs LINUX_NIC_CHECKSUM */
#define LINUX_NIC_USO 8	     /* and UDP datagrams (UDP_SEGMENT) */
#define LINUX_NIC_FRAMES                                                                           \
	16		 /* frames go to host->frame_transmit(), without their bytes being copied */
#define LINUX_NIC_GRO 32 /* of these: what is delivered before linux_run() is joined (GRO) */

struct linux_nic_parameters {
	char name[16];
	uint64_t cookie;
	uint8_t mac[6]; /* ignored with LINUX_NIC_RAW_IP */
	uint32_t mtu;
	uint32_t flags;
	uint32_t queue;	       /* packets that wait for the device; 0 = 1000 */
	uint32_t gso_max_segs; /* segments in one packet; 0 = 65535 */
};

LIBRARY_CALL int linux_nic_add(const struct linux_nic_parameters *parameters,
			       struct linux_nic **made);
LIBRARY_CALL void linux_nic_remove(struct linux_nic *nic);
LIBRARY_CALL void linux_nic_carrier(struct linux_nic *nic, int up);
LIBRARY_CALL int linux_nic_index(struct linux_nic *nic);
/* There is room again after nic_transmit() had said no. */
LIBRARY_CALL void linux_nic_wake(struct linux_nic *nic);

/*
 * A frame came: at most 65535 bytes behind its Ethernet header. linux_run()
 * processes it. -ENOBUFS: too many wait already, -ENETDOWN: nobody set the
 * interface up, -EPROTO: not a frame.
 *
 * linux_nic_receive() copies; the other two let the host read a frame right
 * into the library's memory: ask where (until the next call), read, say how
 * much it was.
 */
LIBRARY_CALL int linux_nic_receive(struct linux_nic *nic, const void *frame, size_t size,
				   const struct linux_offload *offload);
LIBRARY_CALL int linux_nic_buffer(struct linux_nic *nic, struct linux_piece *buffer);
LIBRARY_CALL int linux_nic_received(struct linux_nic *nic, size_t size,
				    const struct linux_offload *offload);

/*
 * Frames of NICs with LINUX_NIC_FRAMES. What is delivered is processed at once;
 * an answer may leave before the call returns. -ENETDOWN: nobody set the
 * interface up, -EPROTO: not a frame; it is gone in any case.
 */
LIBRARY_CALL int linux_nic_deliver(struct linux_nic *nic, struct linux_frame *frame);
LIBRARY_CALL void linux_frame_free(struct linux_frame *frame);
/* NULL: no memory. The payload is shared. */
LIBRARY_CALL struct linux_frame *linux_frame_copy(struct linux_frame *frame);
/* From its first header on: as many bytes as lie in one piece, which are the host's to change. */
LIBRARY_CALL struct linux_piece linux_frame_head(struct linux_frame *frame);
LIBRARY_CALL size_t linux_frame_size(const struct linux_frame *frame);
/* Of bytes that another kernel has read from its own; NULL: no memory. */
LIBRARY_CALL struct linux_frame *linux_frame_make(const void *bytes, size_t size);
/* All its bytes, with the checksums that were left to the device, for another kernel. */
LIBRARY_CALL int linux_frame_read(struct linux_frame *frame, void *to, size_t size);

/* Frames that wait for linux_run(). */
LIBRARY_CALL unsigned int linux_nic_backlog(struct linux_nic *nic);

#endif
