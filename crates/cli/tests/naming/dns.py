"""A DNS server of reverse names on 127.0.0.1:53 (RFC 1035, PTR only).

dns.py LOG ADDRESS=NAME...: an address without a name after `=` is never answered, one that is not
given has no name. Each query is a line of the file LOG, which is there when the server is.
"""

import ipaddress
import socket
import sys

log = sys.argv[1]
names = {ipaddress.ip_address(key).reverse_pointer: value for key, value in (word.split("=") for word in sys.argv[2:])}


def encoded(name):
    return b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\0"


def question(packet):
    labels, at = [], 12
    while packet[at]:
        labels.append(packet[at + 1 : at + 1 + packet[at]].decode())
        at += 1 + packet[at]
    return ".".join(labels).lower(), at + 5


server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
open(log, "w").close()
while True:
    packet, client = server.recvfrom(4096)
    asked, end = question(packet)
    with open(log, "a") as lines:
        print(asked, file=lines)
    name = names.get(asked)
    if name == "":
        continue
    answer = encoded(name) if name else b""
    flags = b"\x81\x80" if name else b"\x81\x83"
    header = packet[:2] + flags + b"\0\1" + bytes([0, bool(name)]) + b"\0\0\0\0"
    record = b"\xc0\x0c\0\x0c\0\1\0\0\x0e\x10" + len(answer).to_bytes(2, "big") + answer
    server.sendto(header + packet[12:end] + (record if name else b""), client)
