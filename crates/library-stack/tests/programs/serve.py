"""serve.py PORT: numbered words to one client, until it goes away; "ready" once it listens."""
import socket
import struct
import sys

PIECE = 1 << 16
with socket.create_server(("", int(sys.argv[1]))) as listener:
    print("ready", flush=True)
    client, _ = listener.accept()
sent = 0
try:
    while True:
        first = sent // 4
        client.sendall(struct.pack(f">{PIECE // 4}I", *range(first, first + PIECE // 4)))
        sent += PIECE
except OSError:
    pass
