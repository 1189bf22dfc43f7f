#!/usr/bin/env python3
"""Tries what no unit's program has to do, and says of each whether it was allowed.

Run by a unit it shows what the sandbox forbids; run by root without one, all is allowed.
"""

import ctypes
import mmap
import os
import socket
import subprocess
import sys

libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWUSER, CLONE_NEWNS, MS_BIND, PROT_RWX, MAP_PRIVATE_ANONYMOUS = 0x10000000, 0x20000, 0x1000, 7, 0x22
SCHED_FIFO = 1


def check(result):
    if result == -1 or result == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def in_child(action):
    """What changes the process is done in another one."""
    child = os.fork()
    if child == 0:
        try:
            action()
            os._exit(0)
        except OSError as error:
            os._exit(error.errno or 1)
    code = os.waitpid(child, 0)[1]
    if code:
        raise OSError(code >> 8, os.strerror(code >> 8) if code >> 8 else f"signal {code}")


def write(path):
    with open(path, "a"):
        pass
    os.remove(path)


def rewrite(path):
    """Writes into a file of the kernel what it has."""
    with open(path) as file:
        text = file.read()
    with open(path, "w") as file:
        file.write(text)


def set_bit(path):
    """setuid on a file of our own, where one may be written."""
    with open(path, "w"):
        pass
    try:
        os.chmod(path, 0o4755)
        if not os.stat(path).st_mode & 0o4000:
            raise OSError(1, "the bit was not set")
    finally:
        os.remove(path)


def executable_memory():
    libc.mmap.restype = ctypes.c_void_p
    check(libc.mmap(None, mmap.PAGESIZE, PROT_RWX, MAP_PRIVATE_ANONYMOUS, -1, 0))


def others_home():
    with open("/home/someone/secret") as file:
        file.read()


def mount():
    check(libc.unshare(CLONE_NEWNS))
    check(libc.mount(b"/usr", b"/mnt", None, MS_BIND, None))


def namespace():
    check(libc.unshare(CLONE_NEWUSER))


def set_clock():
    import time

    time.clock_settime(time.CLOCK_REALTIME, time.time())


def host_name():
    name = socket.gethostname().encode()
    check(libc.sethostname(name, len(name)))


def real_time():
    os.sched_setscheduler(0, SCHED_FIFO, os.sched_param(1))


def packet_socket():
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()


def disk():
    with open("/dev/vda", "rb") as device:
        device.read(512)


def kernel_log():
    with open("/dev/kmsg", "rb", buffering=0):
        pass


def personality():
    old = libc.personality(0xFFFFFFFF)
    check(libc.personality(old | 0x0040000))


def become_nobody():
    os.setuid(65534)


def trace():
    check(libc.ptrace(16, os.getppid(), 0, 0))
    check(libc.ptrace(17, os.getppid(), 0, 0))


TRIED = {
    "write to /etc": lambda: write("/etc/transom.tried"),
    "write to /usr": lambda: write("/usr/bin/transom.tried"),
    "write to the root's home": lambda: write("/root/transom.tried"),
    "read a home": others_home,
    "set a kernel parameter": lambda: rewrite("/proc/sys/kernel/pid_max"),
    "make a control group": lambda: (os.mkdir("/sys/fs/cgroup/tried"), os.rmdir("/sys/fs/cgroup/tried")),
    "mount": lambda: in_child(mount),
    "make a namespace": lambda: in_child(namespace),
    "set the clock": set_clock,
    "set the host's name": host_name,
    "have real-time priority": lambda: in_child(real_time),
    "open a packet socket": packet_socket,
    "read the disk": disk,
    "read the kernel's log": kernel_log,
    "have memory that is written and run": executable_memory,
    "change its personality": lambda: in_child(personality),
    "load a module": lambda: subprocess.run(["modprobe", "dummy"], check=True, capture_output=True),
    "set the setuid bit": lambda: set_bit("/dev/shm/transom.tried"),
}
HERE_ALSO = {"transom-agent": {"become another user": lambda: in_child(become_nobody), "trace a process": lambda: in_child(trace)}}


def main():
    tried = dict(TRIED)
    if "--all" in sys.argv:
        for more in HERE_ALSO.values():
            tried.update(more)
    for name, action in tried.items():
        try:
            action()
            print(f"allowed: {name}")
        except (OSError, subprocess.CalledProcessError) as error:
            reason = error.strerror if isinstance(error, OSError) else f"exit code {error.returncode}"
            print(f"refused: {name} ({reason})")


main()
