"""leave.py HOST PORT BYTES: so many numbered bytes to the server, and away at once."""
import socket
import struct
import sys

number = int(sys.argv[3]) // 4
server = socket.create_connection((sys.argv[1], int(sys.argv[2])))
server.sendall(struct.pack(f">{number}I", *range(number)))
