"""push.py HOST PORT [BYTES]: numbered words to the server, so many bytes of them or, without a
number, until the server says a byte; then how many bytes, on standard output."""
import select
import socket
import struct
import sys

PIECE = 1 << 16
most = int(sys.argv[3]) if len(sys.argv) > 3 else None
sent = 0
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as server:
    while most is None or sent < most:
        if most is None and select.select([server], [], [], 0)[0]:
            break
        first = sent // 4
        server.sendall(struct.pack(f">{PIECE // 4}I", *range(first, first + PIECE // 4)))
        sent += PIECE
    server.shutdown(socket.SHUT_WR)
    while server.recv(1 << 16):
        pass
print(sent)
