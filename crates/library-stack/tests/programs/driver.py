"""driver.py INTERFACE NEIGHBOUR: what the interface's driver is called and whether it has a carrier,
and the hardware address of its neighbour, asked with a socket of datagrams and with one of a stream."""
import ctypes
import fcntl
import socket
import struct
import sys

SIOCETHTOOL, SIOCGARP, ETHTOOL_GDRVINFO, ETHTOOL_GLINK, ETHTOOL_GSTRINGS = 0x8946, 0x8954, 3, 10, 27
name, neighbour = sys.argv[1].encode(), sys.argv[2]


def told(one, command, length):
    value = ctypes.create_string_buffer(struct.pack("I", command).ljust(length, b"\0"), length)
    request = struct.pack("16sQ16x", name, ctypes.addressof(value))
    try:
        fcntl.ioctl(one, SIOCETHTOOL, request)
    except OSError as error:
        return error.errno
    return value.raw[4:]


for kind in socket.SOCK_DGRAM, socket.SOCK_STREAM:
    one = socket.socket(socket.AF_INET, kind)
    print(told(one, ETHTOOL_GDRVINFO, 196)[:32].rstrip(b"\0"), told(one, ETHTOOL_GLINK, 8))
    print(told(one, ETHTOOL_GSTRINGS, 200))
    asked = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(neighbour)) + bytes(36)
    print(fcntl.ioctl(one, SIOCGARP, asked + name.ljust(16, b"\0")).hex())
