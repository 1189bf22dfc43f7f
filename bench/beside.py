#!/usr/bin/env python3
"""make bench: the agent beside tcplife (libbpf-tools) and ss in a loop, on the same load.

One nginx connection per request, each tool in turn, several rounds. Printed per connection, of
which each request is two here: CPU time of the tool and of its BPF programs, and what part of
the connections it reported. The kernel counts the time of programs in runs of their own, since that slows the load. Needs root, nginx, wrk, ss, and tcplife with tracefs mounted.
"""

import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import watcher
import web

ROUNDS = int(os.environ.get("ROUNDS", 5))
SECONDS = int(os.environ.get("SECONDS_EACH", 4))


def of_agent(folder):
    spool = folder / "spool"
    count = ("print(sum(p.read_table(f, columns=['service'])['service'].to_pylist().count(int(sys.argv[2]))"
             " for f in glob.glob(sys.argv[1] + '/connections*')))")
    return watcher.agent(spool), lambda: int(watcher.in_parquet(count, spool, web.PORT) or 0)


def of_tcplife(folder):
    lines = folder / "lines"
    tool = watcher.Watcher(["sh", "-c", f"exec tcplife > {lines}"])
    return tool, lambda: sum(str(web.PORT) in line for line in lines.read_text().splitlines())


def of_ss(folder):
    lines = folder / "lines"
    tool = watcher.Watcher(["sh", "-c", f"while :; do ss -tinH >> {lines}; sleep 1; done"])

    def seen():
        words = (line.split() for line in lines.read_text().splitlines() if f":{web.PORT}" in line)
        return len({(w[3], w[4]) for w in words if len(w) > 4 and w[0] == "ESTAB"})

    return tool, seen


def once(start):
    with tempfile.TemporaryDirectory() as folder:
        tool, reported = start(Path(folder))
        time.sleep(2)
        own, (programs, _) = tool.cpu(), watcher.programs()
        rate, _, requests = web.wrk(True, SECONDS)
        time.sleep(1.5)
        programs, resident = watcher.programs()[0] - programs, tool.resident()
        own = tool.stop() - own
        ends = 2 * requests
        return rate, own / ends * 1e6, programs / ends * 1e6, reported() / ends, resident


def main():
    if os.geteuid() != 0:
        sys.exit("BPF programs need root: sudo python3 bench/beside.py")
    tools = {"transom-agent": of_agent, "tcplife": of_tcplife, "ss each second": of_ss}
    if not shutil.which("tcplife"):
        print("tcplife is not installed (Debian: libbpf-tools)", file=sys.stderr)
        del tools["tcplife"]
    results = {name: [] for name in tools}
    with tempfile.TemporaryDirectory() as folder, web.server(folder):
        for _ in range(ROUNDS):
            without, *_ = web.wrk(True, SECONDS)
            for name, start in tools.items():
                rate, *_ = once(start)
                with watcher.counted():
                    _, *rest = once(start)
                results[name].append((rate / without, *rest))
    print("| tool | rate, with ÷ without | CPU, µs a connection | its programs, µs a connection | connections reported | memory, MiB |")
    print("|---|---|---|---|---|---|")
    for name, rounds in results.items():
        rate, own, programs, reported, resident = (statistics.median(column) for column in zip(*rounds))
        print(f"| {name} | {rate:.2f} | {own:.2f} | {programs:.2f} | {reported:.1%} | {resident:.0f} |")


if __name__ == "__main__":
    main()
