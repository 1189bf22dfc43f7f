#!/usr/bin/env python3
"""Many connections through one agent, by hand: python3 bench/crowd.py held|month [N]

held    N connections (131,073) open at once on loopback, both ends here: memory of the agent and
        of the kernel, and what looks at them cost
month   N connections (10,000,000) one after another: whether the agent's memory stays, its spool
        keeps its limit (24 MiB), and each connection is in a file or was counted

Needs root; `month` needs nginx and wrk and takes about ten minutes on an idle machine.
"""

import os
import resource
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path

import watcher
import web


def slab():
    """Memory of the kernel's own objects, MiB."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("Slab:")).split()[1]) / 1024


def hold(number, listeners):
    """A child that opens so many connections and keeps them until it is ended."""
    told, tells = os.pipe()
    child = os.fork()
    if child:
        os.close(tells)
        return child, told
    held = []
    for n in range(number):
        listener = listeners[n % len(listeners)]
        held.append((socket.create_connection(listener.getsockname()), listener.accept()))
    os.write(tells, b"x")
    signal.pause()
    os._exit(0)


def held(folder, number):
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    each = min(5000, (most - 100) // 2)
    agent = watcher.agent(Path(folder) / "spool", cpu=0.01)
    print(f"before: agent {agent.resident():.1f} MiB, kernel {slab():.0f} MiB")
    children, left = [], number
    while left:
        # An address of its own for each child, so that ports suffice.
        listeners = [socket.create_server((f"127.0.{len(children) + 1}.1", 0)) for _ in range(4)]
        children.append(hold(min(each, left), listeners))
        left -= min(each, left)
        [listener.close() for listener in listeners]
    for child, told in children:
        if os.read(told, 1) != b"x":
            sys.exit("a connection could not be opened")
    print(f"{number} open: agent {agent.resident():.1f} MiB, kernel {slab():.0f} MiB")
    cpu = agent.cpu()
    time.sleep(60)
    print(f"a minute of looks: {(agent.cpu() - cpu) / 60:.2%} of one CPU")
    for child, _ in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    time.sleep(5)
    agent.stop()


def month(folder, number):
    config = Path(folder) / "agent.toml"
    config.write_text("spool_mib = 24\n")
    agent = watcher.agent(Path(folder) / "spool", "--config", config)
    done = 0
    with web.server(folder):
        while 2 * done < number:
            done += web.wrk(True, 30)[2]
            size = sum(f.stat().st_size for f in (Path(folder) / "spool").iterdir()) / 2**20
            print(f"{2 * done} connections: at most {agent.resident():.1f} MiB, spool {size:.1f} MiB", flush=True)
    time.sleep(2)
    agent.stop()
    print(f"{2 * done} connections of nginx and wrk")


def main():
    modes = {"held": (held, 131_073), "month": (month, 10_000_000)}
    if os.geteuid() != 0 or len(sys.argv) < 2 or sys.argv[1] not in modes:
        sys.exit(__doc__)
    run, number = modes[sys.argv[1]]
    number = int(sys.argv[2]) if len(sys.argv) > 2 else number
    with tempfile.TemporaryDirectory() as folder:
        run(folder, number)
        said = watcher.in_parquet(
            "a = [r for f in sorted(glob.glob(sys.argv[1] + '/agent*')) for r in p.read_table(f).to_pylist()]\n"
            "print(sum(r['rows'] for r in a), 'rows were written,', max(r['lost_rows'] for r in a), 'lost,',"
            " max(r['untracked'] for r in a), 'untracked')", Path(folder) / "spool")
        print(said or "without PyArrow the rows are not counted")


if __name__ == "__main__":
    main()
