#!/usr/bin/env python3
"""make bench: what the agent costs, as ratios against the same load without it.

nginx with wrk: many requests on few connections, and one connection per
request. Each ratio compares neighbouring slices of a load (slices.py) and is
the median of many. Needs root, nginx and wrk. Prints a table in Markdown.

With BEFORE=FILE, another build of the agent, only what each connection costs
is compared, in pairs of runs one after the other.
"""

import os
import statistics
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import run
import slices
import watcher
import web

LOAD = watcher.BUILT / "examples" / "load"
ROUNDS = int(os.environ.get("ROUNDS", 10))
# Of two builds.
PAIRS = int(os.environ.get("PAIRS", 7))
# At level 2 a hundredth of the connections is recorded.
LEVELS = [int(level) for level in os.environ.get("LEVELS", "0 1 2").split()]
SECONDS = int(os.environ.get("SECONDS_EACH", 4))


def new_spool(folder):
    return Path(folder) / f"spool-{time.monotonic_ns()}"


def new_agent(folder, level):
    config = Path(folder) / "agent.toml"
    config.write_text("[recording]\nsample = 0.01\n")
    return watcher.agent(new_spool(folder), "--config", config, "--level", str(level))


def watched(close, folder, level):
    """wrk beside an agent: its result, CPU seconds of the agent, and what the probes took and how often they ran."""
    agent = new_agent(folder, level)
    time.sleep(0.3)
    begun, probes = agent.cpu(), watcher.programs()
    result = web.wrk(close, SECONDS)
    time.sleep(1.2)
    after = watcher.programs()
    return result, agent.stop() - begun, [b - a for a, b in zip(probes, after)]


def ratios(load, folder):
    """At each level: rate and p99 with ÷ without, and the most memory."""
    resident = dict.fromkeys(LEVELS, 0)

    def beside(level):
        @contextmanager
        def running():
            agent = new_agent(folder, level)
            try:
                yield
            finally:
                resident[level] = max(resident[level], agent.resident())
                agent.stop()
        return running

    found = slices.ratios(load, {level: beside(level) for level in LEVELS}, ROUNDS)
    load.stop()
    return {level: (*map(slices.middle, found[level]), resident[level]) for level in LEVELS}


def cost(close, folder, level, floor):
    """µs per request: of the agent, and of its probes above as many runs of an empty one, which takes `floor` seconds.
    The kernel counts their time meanwhile, which slows the load: no ratio is made of these runs."""
    agent, probes = [], []
    with watcher.counted():
        for _ in range(3):
            result, used, (seconds, runs) = watched(close, folder, level)
            agent.append(used / result[2])
            probes.append((seconds - floor * runs) / result[2])
    return [f"{statistics.median(each) * 1e6:.2f}" for each in (agent, probes)]


def against(before, folder, floor):
    """Both agents beside one connection per request, in turns: µs per end of a connection, and the ratios of neighbours."""
    agents = {"before": Path(before), "now": watcher.AGENT}
    print("| level | | agent, µs | probes, µs | together, µs | now ÷ before |")
    print("|---|---|---|---|---|---|")
    for level in LEVELS:
        costs = {name: [] for name in agents}
        for number in range(PAIRS):
            for name in sorted(agents, reverse=bool(number % 2)):
                watcher.AGENT = agents[name]
                result, used, (seconds, runs) = watched(True, folder, level)
                ends = 2 * result[2] / 1e6
                costs[name].append((used / ends, (seconds - floor * runs) / ends))
        ratios = [sum(now) / sum(old) for old, now in zip(costs["before"], costs["now"])]
        for name, each in costs.items():
            agent, probes = (statistics.median(times) for times in zip(*each))
            both = statistics.median(map(sum, each))
            ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})" if name == "now" else ""
            print(f"| {level} | {name} | {agent:.2f} | {probes:.2f} | {both:.2f} | {ratio} |", flush=True)


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
    with watcher.counted():
        floor = run.measure_floor() / 1e9
    with tempfile.TemporaryDirectory() as folder:
        with web.server(folder):
            if before := os.environ.get("BEFORE"):
                with watcher.counted():
                    against(before, folder, floor)
                return
            print("| load | level | rate, with ÷ without | p99, with ÷ without | agent, µs a request | probes, µs a request | memory, MiB |")
            print("|---|---|---|---|---|---|---|")
            loads = [("one connection per request", lambda: slices.Web(close=True), True),
                     ("requests on 32 connections", slices.Web, False),
                     ("one bulk transfer", lambda: slices.Load(LOAD, "bulk", 1), None)]
            for name, load, close in loads:
                for level, (rate, *p99, memory) in ratios(load(), folder).items():
                    used = ["", ""] if close is None else cost(close, folder, level, floor)
                    print(f"| {name} | {level} | {rate} | {''.join(p99)} | {' | '.join(used)} | {memory:.1f} |", flush=True)
            print(complete(folder) or "rows are not counted: no PyArrow in the Python that PYTHON_WITH_PYARROW names")


if __name__ == "__main__":
    main()
