#!/usr/bin/env python3
"""make bench: what the agent costs, as ratios against the same load without it.

nginx with wrk: many requests on few connections, and one connection per
request. Each ratio compares neighbouring runs and is the median of several
pairs. Needs root, nginx and wrk. Prints a table in Markdown.
"""

import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import web

ROOT = Path(__file__).resolve().parent.parent
BUILT = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
AGENT, LOAD = BUILT / "transom-agent", BUILT / "examples" / "load"
PAIRS = int(os.environ.get("PAIRS", 7))
SECONDS = int(os.environ.get("SECONDS_EACH", 4))


class Agent:
    """While it runs; what it used, and what it says of itself."""

    def __init__(self, folder, level):
        self.spool = Path(folder) / f"spool-{time.monotonic_ns()}"
        words = [AGENT, "--spool", self.spool, "--level", str(level), "--cpu", "1"]
        self.process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if line.startswith("rows of"):
                return
        sys.exit("the agent did not start")

    def probes(self):
        """Runs and ns of its programs."""
        text = subprocess.run(["bpftool", "-j", "prog", "show"], capture_output=True, text=True).stdout
        names = {"state_changed", "state_decided", "retransmitted", "reset_received", "reset_sent"}
        own = [p for p in json.loads(text or "[]") if p.get("name") in names]
        return sum(p.get("run_cnt", 0) for p in own), sum(p.get("run_time_ns", 0) for p in own)

    def stop(self):
        runs, ns = self.probes()
        self.process.send_signal(signal.SIGINT)
        self.process.communicate()
        return ns / 1e9, runs

    def cpu(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident(self):
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", text).group(1)) * 1024


def bulk():
    words = [LOAD, "bulk", str(SECONDS), "1"]
    return float(subprocess.run(words, check=True, capture_output=True, text=True).stdout), 0, 0


def pairs(load, folder, level):
    """Ratios of rate and p99, with ÷ without; and what the agent used per request."""
    rates, tails, cpu, probes, resident = [], [], [], [], 0
    load()
    for number in range(PAIRS):
        def without():
            return load()

        def watched():
            nonlocal resident
            agent = Agent(folder, level)
            time.sleep(0.3)
            begun = agent.cpu()
            result = load()
            time.sleep(1.2)
            used = agent.cpu() - begun
            resident = max(resident, agent.resident())
            in_probes, _ = agent.stop()
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
    agent = Agent(folder, 1)
    _, _, requests = web.wrk(True, 10)
    time.sleep(1.5)
    agent.stop()
    script = (
        "import pyarrow.parquet as p,glob,sys;"
        "t=[p.read_table(f,columns=['service','direction','kind']) for f in glob.glob(sys.argv[1]+'/connections*')];"
        "d=[r for x in t for r in x.to_pylist() if r['service']==int(sys.argv[2])];"
        "a=[p.read_table(f).to_pylist() for f in glob.glob(sys.argv[1]+'/agent*')];"
        "l=max(r['lost_rows']+r['untracked'] for x in a for r in x);"
        "print(sum(r['direction']=='accept' for r in d),sum(r['direction']=='connect' for r in d),l)"
    )
    python = os.environ.get("PYTHON_WITH_PYARROW", sys.executable)
    found = subprocess.run([python, "-c", script, agent.spool, str(web.PORT)], capture_output=True, text=True)
    size = sum(f.stat().st_size for f in agent.spool.glob("connections*"))
    if found.returncode:
        return None
    accepted, connected, lost = map(int, found.stdout.split())
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
                for level in (0, 1):
                    r = pairs(load, folder, level)
                    def number(value, digits=2):
                        return "" if value is None else f"{value:.{digits}f}"
                    low, high = r["rates"]
                    print(f"| {name} | {level} | {r['rate']:.3f} ({low:.2f} to {high:.2f}) | {number(r['p99'])} | "
                          f"{number(r['cpu_us'])} | {number(r['probes_us'])} | {r['resident'] / 2**20:.1f} |", flush=True)
            print(complete(folder))


if __name__ == "__main__":
    main()
