#!/usr/bin/env python3
"""A server for names: each is this machine's, 127.0.0.1.

  names.py ADDRESS        at its port 53
"""

import socket
import sys

ADDRESS_RECORD = 1
socket_ = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
socket_.bind((sys.argv[1], 53))
while True:
    asked, client = socket_.recvfrom(512)
    # RFC 1035, 4.1: a head of 12 bytes, and the question up to its name's end, kind and class.
    end = asked.index(b"\0", 12) + 5
    kind = int.from_bytes(asked[end - 4 : end - 2], "big")
    answers = [b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04" + bytes([127, 0, 0, 1])] if kind == ADDRESS_RECORD else []
    head = asked[:2] + b"\x85\x80\0\x01" + bytes([0, len(answers)]) + b"\0\0\0\0"
    socket_.sendto(head + asked[12:end] + b"".join(answers), client)
