#!/usr/bin/env python3
"""What a group of terminals gains and loses by agreeing, in virtual time: each point with ÷ without.

    bench/groups.py [--half train|report] [--points N] [--seeds N] [--function share|stabilise]
                    [--rules JSON] [--lies] [--worst N] [--jobs N] [--cache DIR]

Needs target/release/transom-simulate (make simulator). The points are drawn from all combinations of
the settings below; each belongs to one of two halves, with seeds of its own, so that rules are made
with one half and judged with the other. docs/peer.md has the tables."""

import argparse
import hashlib
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
TARGET = os.environ.get("CARGO_TARGET_DIR", os.path.join(HERE, "..", "target"))
SIMULATE = os.path.join(TARGET, "release", "transom-simulate")

SECONDS = 30
SPACE = {
    "terminals": (2, 3, 4, 6, 8, 12),
    "rtt_ms": (8, 16, 32, 64, 128, 256, 512),
    "rates": ("equal", "unequal"),
    "moments": ("calm", "rare", "frequent"),
    "load": ("hungry", "idle"),
    "bottleneck": ("air", "path"),
}
# Of a phone's device, Mbit/s, and its class: a Nexus S and an HT-03A (crates/lab's profiles).
FAST, SLOW = (17.2, 2.0), (8.6, 1.0)
PATH_MBIT, PATH_PACKETS = 18, 100
# Every so many ms, for so many, 65 % of a phone's frames are not decoded.
MOMENTS = {"calm": None, "rare": (8000, 400), "frequent": (2000, 200)}
SYSCTL = {"ipv4.tcp_no_metrics_save": "1"}


def drawn(half, number):
    """So many points of a half, moments in equal numbers."""
    everything = [dict(zip(SPACE, values)) for values in itertools.product(*SPACE.values())]
    random.Random(13).shuffle(everything)
    mine = everything[0::2] if half == "train" else everything[1::2]
    groups = [[p for p in mine if p["moments"] == m] for m in SPACE["moments"]]
    return [point for row in zip(*groups) for point in row][:number]


def device(point, index):
    slow = point["rates"] == "unequal" and index % 2 == 1
    return SLOW if slow else (FAST[0], FAST[1] if point["rates"] == "unequal" else 1.0)


def is_idle(point, index):
    """A third of the terminals, and one at least, send only at times; two stay hungry."""
    idle = max(1, point["terminals"] // 3) if point["terminals"] > 2 else 0
    return point["load"] == "idle" and index >= point["terminals"] - idle


def scenario(point, seed, rules, lie=None):
    """`rules`: None without the group; `lie`: what the first terminal tells."""
    ports, hosts, flows = [], {}, {}
    fading = MOMENTS[point["moments"]]
    if fading:
        fading = dict(every_ms=fading[0], lasts_ms=fading[1], errors_up=0.65, errors_down=0.65)
    for index in range(point["terminals"]):
        name = f"phone{index + 1:02}"
        mbit, klass = device(point, index)
        station = {"phy_mbit": 54, "fading": fading}
        ports.append({"name": name, "mac": [2, 0, 0, 0, 0, index + 1], "side": {"air": station}})
        hosts[name] = {
            "addresses": [f"10.77.0.{index + 1}"],
            "device_mbit": mbit,
            "device_burst": 3028,
            "queue_packets": 214,
            "gso_max_segs": 1,
            "sysctl": SYSCTL,
        }
        if rules is not None:
            hosts[name]["peer"] = {"class": klass, "rules": rules}
            if lie and index == 0:
                hosts[name]["peer"]["lie"] = lie
        traffic = {"kind": "bulk", "seconds": SECONDS, "bytes": None}
        if is_idle(point, index):
            traffic = {"kind": "on-off", "on_s": 3.0, "off_s": 5.0, "seconds": SECONDS}
        flow = {"from": name, "to": "server", "port": 5001 + index, "traffic": traffic}
        flow["sender"] = {"congestion": "cubic"}
        flows[name] = flow
    ports.append({"name": "server", "mac": [2, 0, 0, 0, 1, 0], "side": "far"})
    hosts["server"] = {"addresses": ["10.77.1.0"], "sysctl": SYSCTL}
    path = {"rtt_ms": point["rtt_ms"]}
    if point["bottleneck"] == "path":
        path["up"] = {"rate_mbit": PATH_MBIT, "queue_packets": PATH_PACKETS}
    links = {"air": {}, "path": path, "ports": ports}
    return dict(seed=seed, most_seconds=SECONDS + 0.2, links=links, hosts=hosts, flows=flows)


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


class Bench:
    def __init__(self, cache):
        self.cache, self.program = cache, digest(SIMULATE)
        os.makedirs(cache, exist_ok=True)

    def run(self, made):
        """Mbit/s of each flow. Without a group it does not depend on the program's decisions."""
        text = json.dumps(made, sort_keys=True)
        grouped = any("peer" in host for host in made["hosts"].values())
        key = hashlib.sha256((text + (self.program if grouped else "")).encode()).hexdigest()
        kept = os.path.join(self.cache, key)
        if not os.path.exists(kept):
            with tempfile.TemporaryDirectory() as folder:
                file = os.path.join(folder, "scenario.json")
                with open(file, "w") as out:
                    out.write(text)
                subprocess.run([SIMULATE, "run", file, "-o", folder], check=True)
                with open(os.path.join(folder, "outcome.json")) as outcome:
                    outcome = json.load(outcome)
            if outcome["failures"]:
                sys.exit(f"{made}: {outcome['failures']}")
            got = {name: flow["received"] * 8e-6 / SECONDS for name, flow in outcome["flows"].items()}
            with open(kept + ".new", "w") as out:
                json.dump(got, out)
            os.replace(kept + ".new", kept)
        with open(kept) as file:
            return json.load(file)


def jain(point, got):
    """Of the terminals that always want to send, by class."""
    each = [
        mbit / device(point, index)[1]
        for index, mbit in enumerate(got.values())
        if not is_idle(point, index)
    ]
    squares = sum(x * x for x in each)
    return sum(each) ** 2 / (len(each) * squares) if squares else 1.0


def measure(point, runs):
    """Of the runs of one point, a list of flows each."""
    hungry = [i for i in range(point["terminals"]) if not is_idle(point, i)]
    each = [statistics.mean(list(got.values())[i] for got in runs) for i in hungry]
    return {
        "sum": statistics.mean(sum(got.values()) for got in runs),
        "jain": statistics.mean(jain(point, got) for got in runs),
        "worst": min(each),
        "first": each[0],
        "others": statistics.mean(sum(list(got.values())[1:]) for got in runs),
    }


def told(point):
    return " ".join(f"{value}{' ms' if key == 'rtt_ms' else ''}" for key, value in point.items())


def share(values, holds):
    return sum(map(holds, values)) / max(len(values), 1)


def row(name, rows):
    if not rows:
        return
    sums = sorted(r["sum"] for r in rows)
    fair = share(rows, lambda r: r["jain"] >= 0.95 or r["jain"] >= r["jain_without"] - 0.005)
    print(
        f"| {name} | {len(rows)} | {statistics.median(sums):.2f} | {sums[int(0.05 * len(sums))]:.2f} |"
        f" {sums[0]:.2f} | {share(sums, lambda s: s >= 0.99):.0%} |"
        f" {statistics.median(r['jain_without'] for r in rows):.2f} |"
        f" {statistics.median(r['jain'] for r in rows):.2f} | {min(r['jain'] for r in rows):.2f} |"
        f" {fair:.0%} | {statistics.median(r['worst'] for r in rows):.2f} |"
    )


def table(rows):
    print(
        "| points | number | sum, with ÷ without: median | 5th percentile | least | ≥ 0.99 |"
        " weighted Jain's index: without, median | with | with, least |"
        " ≥ 0.95 or no worse | worst terminal, with ÷ without |"
    )
    print("|" + "---|" * 11)
    row("all", rows)
    for key in ("moments", "rates", "load", "bottleneck", "terminals"):
        for value in SPACE[key]:
            row(f"{key}: {value}", [r for r in rows if r["point"][key] == value])
    for low, high in ((8, 32), (64, 128), (256, 512)):
        row(f"RTT {low} to {high} ms", [r for r in rows if low <= r["point"]["rtt_ms"] <= high])
    for rates in SPACE["rates"]:
        chosen = [r for r in rows if r["point"]["moments"] == "frequent"]
        row(f"frequent, {rates}", [r for r in chosen if r["point"]["rates"] == rates])


LIES = {
    "hungry": {"hungry": True},
    "class × 10": {"class": 10.0},
    "goodput ÷ 4": {"goodput": 0.25},
    "goodput × 4": {"goodput": 4.0},
    "min RTT × 4": {"min_rtt": 4.0, "srtt": 4.0},
    "min RTT ÷ 4": {"min_rtt": 0.25, "srtt": 0.25},
    "queue of 1 s": {"srtt": 4.0},
    "unstable": {"unstable": True},
    "air of 100 Mbit/s": {"air_mbit": 100.0},
    "air of 1 Mbit/s": {"air_mbit": 1.0},
    "disobeys": {"disobeys": True},
}


def main():
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--half", choices=("train", "report"), default="train")
    words.add_argument("--points", type=int, default=84)
    words.add_argument("--seeds", type=int, default=3)
    words.add_argument("--function", default="share")
    words.add_argument("--rules", type=json.loads, default={}, help="further rules, JSON")
    words.add_argument("--lies", action="store_true", help="the first terminal lies")
    words.add_argument("--worst", type=int, default=0, help="also list so many points")
    words.add_argument("--jobs", type=int, default=os.cpu_count())
    words.add_argument("--cache", default=os.path.join(tempfile.gettempdir(), "transom-groups"))
    words = words.parse_args()
    rules = {"function": words.function, **words.rules}
    points = drawn(words.half, words.points)
    base = 1 if words.half == "train" else 1001
    seeds = range(base, base + words.seeds)
    bench = Bench(words.cache)
    arms = {"without": (None, None), "with": (rules, None)}
    if words.lies:
        arms |= {name: (rules, lie) for name, lie in LIES.items()}
    jobs = [(p, a, s) for p in range(len(points)) for a in arms for s in seeds]
    with ThreadPoolExecutor(words.jobs) as pool:
        ran = list(pool.map(lambda j: bench.run(scenario(points[j[0]], j[2], *arms[j[1]])), jobs))
    runs = {}
    for (point, arm, _), got in zip(jobs, ran):
        runs.setdefault((point, arm), []).append(got)
    of = {key: measure(points[key[0]], value) for key, value in runs.items()}
    if words.lies:
        lies(points, of)
        return
    rows = []
    for index, point in enumerate(points):
        bare, group = of[index, "without"], of[index, "with"]
        rows.append(
            {
                "point": point,
                "sum": group["sum"] / bare["sum"],
                "worst": group["worst"] / bare["worst"] if bare["worst"] else 1.0,
                "jain": group["jain"],
                "jain_without": bare["jain"],
                "mbit": (bare["sum"], group["sum"]),
            }
        )
    table(rows)
    for r in sorted(rows, key=lambda r: r["sum"])[: words.worst]:
        print(f"{r['sum']:.3f} of {r['mbit'][0]:.1f}, Jain {r['jain_without']:.3f} to {r['jain']:.3f}: {told(r['point'])}")
    if words.worst:
        print("least fair against without:")
    fell = [r for r in rows if r["jain"] < min(0.95, r["jain_without"] - 0.005)]
    for r in sorted(fell, key=lambda r: r["jain"] - r["jain_without"])[: words.worst]:
        print(f"{r['sum']:.3f} of {r['mbit'][0]:.1f}, Jain {r['jain_without']:.3f} to {r['jain']:.3f}: {told(r['point'])}")


def lies(points, of):
    print("| the first terminal claims | it gets, ÷ honest: median | most | the others: median | least |")
    print("|---|---|---|---|---|")
    for name in LIES:
        own, others = [], []
        for index in range(len(points)):
            honest, lied = of[index, "with"], of[index, name]
            own.append(lied["first"] / honest["first"])
            others.append(lied["others"] / honest["others"])
        print(
            f"| {name} | {statistics.median(own):.2f} | {max(own):.2f} |"
            f" {statistics.median(others):.2f} | {min(others):.2f} |"
        )


if __name__ == "__main__":
    main()
