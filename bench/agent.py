#!/usr/bin/env python3
"""make bench: what the agent costs, as ratios against the same load without it.

nginx with wrk: many requests on few connections, and one connection per
request. Each ratio compares neighbouring runs and is the median of several
pairs. Needs root, nginx and wrk. Prints a table in Markdown.

With BEFORE=FILE, another build of the agent, only what each connection costs
is compared, in pairs of runs one after the other.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import run
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


def watched(load, folder, level):
    """The load beside an agent: its result, CPU seconds of the agent, and what the probes took and how often they ran."""
    config = Path(folder) / "agent.toml"
    config.write_text("[recording]\nsample = 0.01\n")
    agent = watcher.agent(new_spool(folder), "--config", config, "--level", str(level))
    time.sleep(0.3)
    begun, probes = agent.cpu(), watcher.programs()
    result = load()
    time.sleep(1.2)
    after, resident = watcher.programs(), agent.resident()
    return result, agent.stop() - begun, [b - a for a, b in zip(probes, after)], resident


def pairs(load, folder, level):
    """Ratios of rate and p99, with ÷ without."""
    rates, tails, resident = [], [], 0
    load()
    for number in range(PAIRS):
        def beside():
            nonlocal resident
            result, _, _, memory = watched(load, folder, level)
            resident = max(resident, memory)
            return result

        first, second = (load, beside) if number % 2 else (beside, load)
        a, b = first(), second()
        off, on = (a, b) if number % 2 else (b, a)
        rates.append(on[0] / off[0])
        if off[1]:
            tails.append(on[1] / off[1])
    return {
        "rate": statistics.median(rates),
        "rates": (min(rates), max(rates)),
        "p99": statistics.median(tails) if tails else None,
        "resident": resident,
    }


def cost(load, folder, level, floor):
    """µs per request: of the agent, and of its probes above as many runs of an empty one, which takes `floor` seconds.
    The kernel counts their time meanwhile, which slows the load: no ratio is made of these runs."""
    agent, probes = [], []
    with watcher.counted():
        for _ in range(3):
            result, used, (seconds, runs), _ = watched(load, folder, level)
            if not result[2]:
                return {"cpu_us": None, "probes_us": None}
            agent.append(used / result[2])
            probes.append((seconds - floor * runs) / result[2])
    return {"cpu_us": statistics.median(agent) * 1e6, "probes_us": statistics.median(probes) * 1e6}


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
                result, used, (seconds, runs), _ = watched(lambda: web.wrk(True, SECONDS), folder, level)
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
            rows = [("one connection per request", lambda: web.wrk(True, SECONDS)), ("requests on 32 connections", lambda: web.wrk(False, SECONDS))]
            if LOAD.exists():
                rows.append(("one bulk transfer", bulk))
            print("| load | level | rate, with ÷ without | p99, with ÷ without | agent, µs a request | probes, µs a request | memory, MiB |")
            print("|---|---|---|---|---|---|---|")
            for name, load in rows:
                for level in LEVELS:
                    r = pairs(load, folder, level) | cost(load, folder, level, floor)
                    def number(value, digits=2):
                        return "" if value is None else f"{value:.{digits}f}"
                    low, high = r["rates"]
                    print(f"| {name} | {level} | {r['rate']:.3f} ({low:.2f} to {high:.2f}) | {number(r['p99'])} | "
                          f"{number(r['cpu_us'])} | {number(r['probes_us'])} | {r['resident']:.1f} |", flush=True)
            print(complete(folder) or "rows are not counted: no PyArrow in the Python that PYTHON_WITH_PYARROW names")


if __name__ == "__main__":
    main()
