#!/usr/bin/env python3
"""What `steady` costs beside cubic: CPU time a gigabyte, bulk over loopback.

Needs root. Pairs of neighbouring transfers, the order within them turned from
pair to pair; each algorithm has the same cap. CPU time is that of both ends,
user and system, the softirq work that the kernel does in their name included.
Prints a table for docs/steady.md: medians, the median of the pairs' ratios and
its 95 % confidence interval (order statistics, the binomial sign test).
"""

import ctypes
import math
import os
import resource
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TRANSOM = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target")) / "release" / "transom"

PAIRS = 25
BYTES = 6 << 30
CHUNK = 256 << 10
CAP = 30  # segments of 64 KB: what both keep in flight
TCP_CONGESTION = 13


def enter(namespace):
    with open(f"/run/netns/{namespace}") as file:
        # os.setns came with Python 3.12.
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0):
            sys.exit(f"entering {namespace}: {os.strerror(ctypes.get_errno())}")


def receive(listener):
    """The other end, in a process of its own; it tells what it used."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    stream, _ = listener.accept()
    buffer = bytearray(CHUNK)
    while stream.recv_into(buffer):
        pass
    usage = resource.getrusage(resource.RUSAGE_SELF)
    os.write(writing, f"{usage.ru_utime + usage.ru_stime}".encode())
    os._exit(0)


def transfer(algorithm):
    """CPU seconds a gigabyte, and Gbit/s."""
    listener = socket.create_server(("127.0.0.1", 0))
    child, reading = receive(listener)
    stream = socket.create_connection(listener.getsockname())
    given = stream.getsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, 16).rstrip(b"\0").decode()
    if given != algorithm:
        sys.exit(f"the connection has {given}, not {algorithm}")
    message = bytes(CHUNK)
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
    for _ in range(BYTES // CHUNK):
        stream.sendall(message)
    stream.close()
    other = float(os.read(reading, 64))
    after, took = resource.getrusage(resource.RUSAGE_SELF), time.monotonic() - began
    os.waitpid(child, 0)
    os.close(reading)
    own = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return (own + other) / BYTES * 1e9, BYTES * 8 / took / 1e9


def tune(*words):
    result = subprocess.run([TRANSOM, "tune", *words], capture_output=True, text=True)
    if result.returncode:
        sys.exit(result.stderr)


def with_algorithm(algorithm, namespace):
    """One transfer under a setting of its own."""
    words = ["--algorithm", algorithm, "--cap", str(CAP)]
    tune("set", "--netns", namespace, *words)
    try:
        return transfer(algorithm)
    finally:
        tune("clear", "--netns", namespace)


def interval(values):
    """Of the median: the widest pair of order statistics with 95 % or more between them."""
    values, n = sorted(values), len(values)
    tail, k = 0.0, 0
    while tail + math.comb(n, k) / 2**n <= 0.025:
        tail += math.comb(n, k) / 2**n
        k += 1
    return values[max(k - 1, 0)], values[min(n - k, n - 1)]


def main():
    if os.geteuid():
        sys.exit("needs root")
    namespace = f"steady-bench-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", namespace], check=True)
    try:
        subprocess.run(["ip", "-n", namespace, "link", "set", "lo", "up"], check=True)
        enter(namespace)
        found = {"cubic": [], "steady": []}
        for name in found:
            with_algorithm(name, namespace)
        for pair in range(PAIRS):
            for name in sorted(found, reverse=pair % 2 == 1):
                found[name].append(with_algorithm(name, namespace))
            cpu = [found[name][-1][0] for name in ("cubic", "steady")]
            print(f"  pair {pair}: {cpu[0]:.4f} {cpu[1]:.4f} {cpu[1] / cpu[0]:.3f}", flush=True)
    finally:
        subprocess.run(["ip", "netns", "del", namespace], check=True)
    ratios = [s[0] / c[0] for s, c in zip(found["steady"], found["cubic"])]
    low, high = interval(ratios)
    print("| | CPU s/GB | Gbit/s |\n|---|---|---|")
    for name, values in found.items():
        cpu, rate = (statistics.median(one) for one in zip(*values))
        print(f"| {name} | {cpu:.4f} | {rate:.1f} |")
    print(f"| steady ÷ cubic | {statistics.median(ratios):.3f} ({low:.3f}–{high:.3f}) | |")


if __name__ == "__main__":
    main()
