"""The customers of one prefix: each fetches something from the next host, in turns.

customers.py PREFIX RATE READ_BYTES SERVER…

PREFIX is three octets (198.18.4); RATE is connections a second; READ_BYTES above 0 makes customers
that read so much at a time, with a small buffer, and wait in between.
"""

import asyncio
import ctypes
import itertools
import random
import socket
import sys

PR_SET_NAME = 15
CUSTOMERS = 20
PORT = 80
LEAST, MOST = 50_000, 200_000
PAUSE = 0.02
PATIENCE = 20


async def fetch(source, server, read_bytes):
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.setblocking(False)
        if read_bytes:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2 * read_bytes)
        sock.bind((source, 0))
        await loop.sock_connect(sock, (server, PORT))
        left = random.randint(LEAST, MOST)
        await loop.sock_sendall(sock, b"%d\n" % left)
        while left > 0:
            got = len(await loop.sock_recv(sock, read_bytes or 1 << 18))
            if not got:
                return
            left -= got
            if read_bytes:
                await asyncio.sleep(PAUSE)


async def patiently(source, server, read_bytes):
    try:
        await asyncio.wait_for(fetch(source, server, read_bytes), PATIENCE)
    except (OSError, TimeoutError, asyncio.TimeoutError):
        pass


async def main(prefix, rate, read_bytes, *servers):
    running = set()
    # In turns, so that each host has as many customers of a far network as another.
    for server in itertools.cycle(random.sample(servers, len(servers))):
        source = f"{prefix}.{random.randint(1, CUSTOMERS)}"
        task = asyncio.create_task(patiently(source, server, int(read_bytes)))
        running.add(task)
        task.add_done_callback(running.discard)
        await asyncio.sleep(random.expovariate(float(rate)))


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(PR_SET_NAME, b"customer", 0, 0, 0)
    asyncio.run(main(*sys.argv[1:]))
