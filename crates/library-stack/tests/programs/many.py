"""many.py HOST PORT NUMBER: so many connections at once, each of which must get its own two bytes
back; then how many did."""
import resource
import selectors
import socket
import struct
import sys

number = int(sys.argv[3])
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
poll = selectors.EpollSelector()
for n in range(number):
    one = socket.socket()
    one.setblocking(False)
    one.connect_ex((sys.argv[1], int(sys.argv[2])))
    poll.register(one, selectors.EVENT_WRITE, n)
right = 0
while poll.get_map():
    for key, events in poll.select():
        if events & selectors.EVENT_WRITE:
            error = key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error:
                sys.exit(f"connection {key.data}: error {error}")
            key.fileobj.send(struct.pack(">H", key.data))
            poll.modify(key.fileobj, selectors.EVENT_READ, key.data)
        else:
            right += key.fileobj.recv(2) == struct.pack(">H", key.data)
            poll.unregister(key.fileobj)
print(right)
