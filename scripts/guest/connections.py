#!/usr/bin/env python3
"""Connections over loopback, and what the agent's rows say of them.

  connections.py make PORT N              N connections, one after the other
  connections.py stream PORT STOP MADE    ten per second until the file STOP is there; notes each in MADE
  connections.py count PORT               of the rows on standard input (transom explain --json)
  connections.py missing PORT MADE MOST   which of MADE lack rows there; fails above MOST seconds and one more
"""

import json
import os
import socket
import sys
import time


def connection(server):
    """One connection with both ends here; returns the client's port."""
    client = socket.create_connection(server.getsockname())
    port = client.getsockname()[1]
    accepted, _ = server.accept()
    client.sendall(b"x" * 20000)
    left = 20000
    while left:
        left -= len(accepted.recv(left))
    client.close()
    accepted.close()
    return port


def make(port, count):
    server = socket.create_server(("127.0.0.1", port))
    for _ in range(count):
        connection(server)
    print(f"process {os.getpid()}: {count} connections to port {port}")


def stream(port, stop, made):
    server = socket.create_server(("127.0.0.1", port))
    with open(made, "w") as notes:
        while not os.path.exists(stop):
            print(time.time(), connection(server), file=notes, flush=True)
            time.sleep(0.1)


def rows(port):
    """Rows of ended connections to a port; the input is one JSON value after the other."""
    text, decoder = sys.stdin.read().strip(), json.JSONDecoder()
    while text:
        value, end = decoder.raw_decode(text)
        text = text[end:].lstrip()
        for row in value if isinstance(value, list) else [value]:
            if row.get("service") == port and row.get("kind") == "end":
                yield row


def missing(port, made, most):
    """Two rows for each connection, one of either end: which lack one?"""
    seen = {}
    for row in rows(port):
        client = row["local_port"] if row["remote_port"] == port else row["remote_port"]
        seen[client] = seen.get(client, 0) + 1
    notes = [line.split() for line in open(made)]
    lacking = [float(at) for at, client in notes if seen.get(int(client), 0) < 2]
    gap = max(lacking) - min(lacking) if lacking else 0.0
    print(f"{len(notes)} connections, {len(lacking)} without both rows, in {gap:.1f} s")
    first, last = float(notes[0][0]), float(notes[-1][0])
    around = [at for at in lacking if at - first > 1 and last - at > 1]
    return 0 if gap <= most + 1 and len(around) == len(lacking) and len(notes) > 20 else 1


def main():
    command, port, *rest = sys.argv[1:]
    port = int(port)
    if command == "make":
        make(port, int(rest[0]))
    elif command == "stream":
        stream(port, *rest)
    elif command == "count":
        print(sum(1 for _ in rows(port)))
    elif command == "missing":
        sys.exit(missing(port, rest[0], float(rest[1])))
    else:
        sys.exit(__doc__)


main()
