"""interface.py NAME PORT: what the program is told of the interface, by its number on the host; a
datagram to port PORT of a group of IPv6, over it; and over which interface one to port 5000 comes."""
import fcntl
import socket
import struct
import sys

SIOCGIFNAME, SIOCGIFINDEX, IP_PKTINFO = 0x8910, 0x8933, 8
name, number = sys.argv[1], socket.if_nametoindex(sys.argv[1])
v4 = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
v6 = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)


def asked(request, name, number):
    answer = fcntl.ioctl(v4, request, struct.pack("16si20x", name.encode(), number))
    name, number = struct.unpack("16si20x", answer)
    return name.rstrip(b"\0").decode(), number


def came_over(message):
    return [struct.unpack_from("i", data)[0] for _, kind, data in message[1] if kind == IP_PKTINFO]


print("name", asked(SIOCGIFNAME, "", number)[0])
print("number", asked(SIOCGIFINDEX, name, 0)[1] == number)
v6.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, number)
print("option", v6.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF) == number)
v6.sendto(b"a word", ("ff02::70", int(sys.argv[2])))
v4.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
v4.bind(("", 5000))
v4.settimeout(60)
print("ready", flush=True)
print("came over it", came_over(v4.recvmsg(100, 100)) == [number])
