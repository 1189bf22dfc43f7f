"""echo.py ADDRESS PORT: a server that sends everything back; "ready" once it listens."""
import selectors
import socket
import sys

family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
listener = socket.socket(family, socket.SOCK_STREAM)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
try:
    listener.bind((sys.argv[1], int(sys.argv[2])))
except OSError as error:
    sys.exit(f"bind: {error.errno} {error.strerror}")
listener.listen(128)
print("ready", flush=True)
poll = selectors.EpollSelector()
poll.register(listener, selectors.EVENT_READ)
while True:
    for key, _ in poll.select():
        if key.fileobj is listener:
            poll.register(listener.accept()[0], selectors.EVENT_READ)
            continue
        piece = key.fileobj.recv(1 << 16)
        if piece:
            key.fileobj.sendall(piece)
        else:
            poll.unregister(key.fileobj)
            key.fileobj.close()
