#!/usr/bin/env python3
"""Both ends of what bench/netstack.py measures.

server PORT             on Multipath TCP, which plain TCP may use too
up|down HOST PORT SECONDS [mptcp]      prints the goodput in bit/s
connect HOST PORT NUMBER               prints the median and the 95 % of socket() + connect(), in us
nothing                                ends at once

The first second is not counted: slow start.
"""

import os
import signal
import socket
import sys
import time

PIECE = 128 << 10
SLOW_START = 1.0
MPTCP = 262


def counted(receive, seconds):
    """Bits a second of what arrives after the first second."""
    buffer = bytearray(PIECE)
    start = time.monotonic()
    begun = None
    got = 0
    end = start
    while length := receive(buffer):
        end = time.monotonic()
        if begun is None:
            if end - start > SLOW_START:
                begun = end
            continue
        got += length
        if seconds and end - start > seconds:
            break
    return got * 8 / (end - begun) if begun and end > begun else 0.0


def push(stream, seconds):
    piece = bytes(PIECE)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        stream.sendall(piece)


def serve_one(stream):
    with stream:
        match stream.recv(1):
            case b"u":
                rate = counted(stream.recv_into, None)
                stream.sendall(str(rate).encode())
            case b"d":
                try:
                    push(stream, 3600)
                except OSError:
                    pass


def server(port):
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, MPTCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("0.0.0.0", port))
    listener.listen(64)
    quick = socket.socket()
    quick.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    quick.bind(("0.0.0.0", port + 1))
    quick.listen(64)
    if os.fork() == 0:
        while True:
            quick.accept()[0].close()
    print("ready", flush=True)
    while True:
        stream, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            serve_one(stream)
            os._exit(0)
        stream.close()


def client(way, host, port, seconds, protocol):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol) as stream:
        stream.connect((host, port))
        stream.sendall(way[:1].encode())
        if way == "up":
            push(stream, seconds)
            stream.shutdown(socket.SHUT_WR)
            print(stream.recv(64).decode())
        else:
            print(counted(stream.recv_into, seconds))


def connect(host, port, number):
    took = []
    for _ in range(number):
        begun = time.perf_counter_ns()
        stream = socket.socket()
        stream.connect((host, port + 1))
        took.append(time.perf_counter_ns() - begun)
        # The server closes first and keeps the TIME-WAIT.
        stream.recv(1)
        stream.close()
    took.sort()
    print(took[number // 2] / 1000, took[number * 95 // 100] / 1000)


match sys.argv[1:]:
    case ["server", port]:
        server(int(port))
    case [("up" | "down") as way, host, port, seconds, *more]:
        client(way, host, int(port), float(seconds), MPTCP if "mptcp" in more else 0)
    case ["connect", host, port, number]:
        connect(host, int(port), int(number))
    case ["nothing"]:
        pass
    case _:
        sys.exit(__doc__)
