#!/usr/bin/env python3
"""make bench: what the agent costs, as ratios against the same load without it.

nginx with wrk: many requests on few connections, and one connection per
request. Each ratio compares neighbouring runs and is the median of several
pairs. Needs root, nginx and wrk. Prints a table in Markdown.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import watcher
import web

LOAD = watcher.BUILT / "examples" / "load"
PAIRS = int(os.environ.get("PAIRS", 7))
# At level 2 a hundredth of the connections is recorded.
LEVELS = [int(level) for level in os.environ.get("LEVELS", "0 1 2").split()]
SECONDS = int(os.environ.get("SECONDS_EACH", 4))


def bulk():
    words = [LOAD, "bulk", str(SECONDS), "1"]
    return float(subprocess.run(words, check=True, capture_output=True, text=True).stdout), 0, 0


def new_spool(folder):
    return Path(folder) / f"spool-{time.monotonic_ns()}"


def pairs(load, folder, level):
    """Ratios of rate and p99, with ÷ without; and what the agent used per request."""
    rates, tails, cpu, probes, resident = [], [], [], [], 0
    load()
    for number in range(PAIRS):
        def without():
            return load()

        def watched():
            nonlocal resident
            config = Path(folder) / "agent.toml"
            config.write_text("[recording]\nsample = 0.01\n")
            agent = watcher.agent(new_spool(folder), "--config", config, "--level", str(level))
            time.sleep(0.3)
            begun, programs = agent.cpu(), watcher.programs()
            result = load()
            time.sleep(1.2)
            resident, in_probes = max(resident, agent.resident()), watcher.programs() - programs
            used = agent.stop() - begun
            if result[2]:
                cpu.append(used / result[2])
                probes.append(in_probes / result[2])
            return result

        first, second = (without, watched) if number % 2 else (watched, without)
        a, b = first(), second()
        off, on = (a, b) if number % 2 else (b, a)
        rates.append(on[0] / off[0])
        if off[1]:
            tails.append(on[1] / off[1])
    middle = statistics.median
    return {
        "rate": middle(rates),
        "rates": (min(rates), max(rates)),
        "p99": middle(tails) if tails else None,
        "cpu_us": middle(cpu) * 1e6 if cpu else None,
        "probes_us": middle(probes) * 1e6 if probes else None,
        "resident": resident,
    }


def complete(folder):
    """Connections opened as fast as can be: rows and counted losses against nginx's own count."""
    spool = new_spool(folder)
    agent = watcher.agent(spool)
    _, _, requests = web.wrk(True, 10)
    time.sleep(1.5)
    agent.stop()
    found = watcher.in_parquet(
        "t = [p.read_table(f, columns=['service', 'direction']).to_pylist() for f in glob.glob(sys.argv[1] + '/connections*')]\n"
        "d = [r['direction'] for x in t for r in x if r['service'] == int(sys.argv[2])]\n"
        "a = [r for f in glob.glob(sys.argv[1] + '/agent*') for r in p.read_table(f).to_pylist()]\n"
        "print(d.count('accept'), d.count('connect'), max(r['lost_rows'] + r['untracked'] for r in a))",
        spool, web.PORT)
    if not found:
        return None
    accepted, connected, lost = map(int, found.split())
    size = sum(f.stat().st_size for f in spool.glob("connections*"))
    return {"requests": requests, "accepted": accepted, "connected": connected, "lost": lost,
            "bytes": size / max(1, accepted + connected)}


def main():
    if os.geteuid() != 0:
        sys.exit("the agent needs root: sudo python3 bench/agent.py")
    with tempfile.TemporaryDirectory() as folder:
        with web.server(folder):
            rows = [("one connection per request", lambda: web.wrk(True, SECONDS)), ("requests on 32 connections", lambda: web.wrk(False, SECONDS))]
            if LOAD.exists():
                rows.append(("one bulk transfer", bulk))
            print("| load | level | rate, with ÷ without | p99, with ÷ without | agent, µs a request | probes, µs a request | memory, MiB |")
            print("|---|---|---|---|---|---|---|")
            for name, load in rows:
                for level in LEVELS:
                    r = pairs(load, folder, level)
                    def number(value, digits=2):
                        return "" if value is None else f"{value:.{digits}f}"
                    low, high = r["rates"]
                    print(f"| {name} | {level} | {r['rate']:.3f} ({low:.2f} to {high:.2f}) | {number(r['p99'])} | "
                          f"{number(r['cpu_us'])} | {number(r['probes_us'])} | {r['resident']:.1f} |", flush=True)
            print(complete(folder))


if __name__ == "__main__":
    main()
