#!/usr/bin/env python3
"""CPU time a packet of the simulator beside ns-3's, the same scenario in pairs of runs.

    bench/simulator.py [--repeats N]

Needs target/release/transom-simulate (make simulator) and Debian's libns3-dev; without ns-3 it says
so and gives the simulator's numbers alone. docs/simulate.md has a result."""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TARGET = os.environ.get("CARGO_TARGET_DIR", os.path.join(HERE, "..", "target"))
SIMULATE = os.path.join(TARGET, "release", "transom-simulate")
LIBRARIES = "internet applications point-to-point traffic-control network core".split()
SEGMENT = 1448

# Pairs of hosts, bottleneck in Mbit/s, queue in packets, simulated seconds.
SCENARIOS = {
    "1 pair, 20 Mbit/s": (1, 20, 100, 60),
    "20 pairs, 100 Mbit/s": (20, 100, 500, 20),
    "100 pairs, 100 Mbit/s": (100, 100, 1000, 20),
}
RTT_MS = 64


def scenario(pairs, mbit, queue, seconds):
    ports, hosts, flows = [], {}, {}
    number = 0
    for pair in range(pairs):
        for side, letter in (("near", "a"), ("far", "b")):
            number += 1
            name = f"{letter}{pair}"
            mac = [2, 0, 0, 0, number >> 8, number & 255]
            ports.append({"name": name, "mac": mac, "side": side})
            hosts[name] = {"addresses": [f"10.77.{number >> 8}.{number & 255}"]}
        flows[f"f{pair}"] = {
            "from": f"a{pair}",
            "to": f"b{pair}",
            "traffic": {"kind": "bulk", "seconds": seconds, "bytes": None},
        }
    path = {"rtt_ms": RTT_MS, "up": {"rate_mbit": mbit, "queue_packets": queue}}
    links = {"path": path, "ports": ports}
    return {"seed": 1, "most_seconds": seconds, "links": links, "hosts": hosts, "flows": flows}


def ran(command):
    """Its output, CPU and wall time, and the most memory that any child has had so far."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    wall = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return output, cpu, wall


def simulated(folder, shape):
    file = os.path.join(folder, "scenario.json")
    with open(file, "w", encoding="utf-8") as out:
        json.dump(scenario(*shape), out)
    _, cpu, wall = ran([SIMULATE, "run", file, "-o", folder])
    with open(os.path.join(folder, "outcome.json"), encoding="utf-8") as outcome:
        flows = json.load(outcome)["flows"].values()
    return sum(flow["received"] for flow in flows), cpu, wall


def ns3(program, shape):
    pairs, mbit, queue, seconds = shape
    options = [f"--pairs={pairs}", f"--mbit={mbit}", f"--queue={queue}", f"--seconds={seconds}"]
    output, cpu, wall = ran([program, f"--rtt={RTT_MS}"] + options)
    return json.loads(output)["bytes"], cpu, wall


def built_ns3(folder):
    program = os.path.join(folder, "ns3-tcp")
    command = ["c++", "-std=c++17", "-O2", os.path.join(HERE, "ns3-tcp.cc"), "-o", program]
    command += [f"-lns3-{library}" for library in LIBRARIES]
    built = shutil.which("c++") and subprocess.run(command, capture_output=True, check=False)
    return program if built and built.returncode == 0 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    if not os.path.exists(SIMULATE):
        sys.exit(f"{SIMULATE} is not there: make simulator")
    with tempfile.TemporaryDirectory() as folder:
        program = built_ns3(folder)
        if program is None:
            print("ns-3 is not there (apt-get install libns3-dev g++): the simulator alone")
        print("µs of CPU for each data packet; ratio: ns-3 ÷ simulator, median (least–greatest)")
        for name, shape in SCENARIOS.items():
            ours, theirs = [], []
            for _ in range(repeats):
                received, cpu, _ = simulated(folder, shape)
                ours.append(cpu * 1e6 * SEGMENT / received)
                if program:
                    received, cpu, _ = ns3(program, shape)
                    theirs.append(cpu * 1e6 * SEGMENT / received)
            line = f"{name}: simulator {statistics.median(ours):.2f}"
            if theirs:
                ratios = sorted(there / here for here, there in zip(ours, theirs))
                line += f", ns-3 {statistics.median(theirs):.1f}, ratio "
                line += f"{statistics.median(ratios):.1f} ({ratios[0]:.1f}–{ratios[-1]:.1f})"
            print(line, flush=True)


if __name__ == "__main__":
    main()
