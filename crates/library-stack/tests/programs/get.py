"""get.py HOST PORT: what the server says, to standard output."""
import socket
import sys

with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as server:
    while piece := server.recv(1 << 18):
        sys.stdout.buffer.write(piece)
