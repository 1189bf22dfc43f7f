#!/usr/bin/env python3
"""What a group of terminals gains and loses by agreeing, in virtual time: each point with ÷ without.

    bench/groups.py [--half train|report] [--points N] [--seeds N] [--rules JSON]
                    [--functions NAME…] [--lies] [--page] [--worst N] [--jobs N] [--cache DIR]

Needs target/release/transom-simulate (make simulator). The points are drawn from all combinations of
the settings below. Each belongs to one of two halves and has seeds of its own, so that rules are made
with one half and judged with the other. docs/groups.md is the output of
--page --half report --points 48 --seeds 4 --worst 8."""

import argparse
import hashlib
import itertools
import json
import math
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
# What is asked of a group (sum and Jain's index), of a liar, and of those beside it.
SUM, SUM_NEVER, FAIR, GAIN, LIAR, OTHERS = 0.99, 0.97, 0.95, 1.2, 1.05, 0.95
# A Jain's index that is lower by less than this is no worse.
NO_WORSE = 0.005
# Flows begin this much later in the runs that show what chance does.
LATER_S = 0.001

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
    "class × 10, goodput ÷ 4, disobeys": {"class": 10.0, "goodput": 0.25, "disobeys": True},
}


def drawn(half, number):
    """So many points of a half with their numbers, moments in equal numbers."""
    everything = [dict(zip(SPACE, values)) for values in itertools.product(*SPACE.values())]
    random.Random(13).shuffle(everything)
    mine = list(enumerate(everything))[0 if half == "train" else 1 :: 2]
    groups = [[p for p in mine if p[1]["moments"] == m] for m in SPACE["moments"]]
    return [point for row in zip(*groups) for point in row][:number]


def device(point, index):
    slow = point["rates"] == "unequal" and index % 2 == 1
    return SLOW if slow else (FAST[0], FAST[1] if point["rates"] == "unequal" else 1.0)


def is_idle(point, index):
    """A third of the terminals, and one at least, send only at times; two stay hungry."""
    idle = max(1, point["terminals"] // 3) if point["terminals"] > 2 else 0
    return point["load"] == "idle" and index >= point["terminals"] - idle


def lie_of(point, lie):
    """A class that is claimed is a multiple of the true one."""
    if not lie or "class" not in lie:
        return lie
    return lie | {"class": lie["class"] * device(point, 0)[1]}


def scenario(point, seed, rules, lie=None, start_s=0.0):
    """`rules`: None without the group; `lie`: what the first terminal reports."""
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
                hosts[name]["peer"]["lie"] = lie_of(point, lie)
        traffic = {"kind": "bulk", "seconds": SECONDS, "bytes": None}
        if is_idle(point, index):
            traffic = {"kind": "on-off", "on_s": 3.0, "off_s": 5.0, "seconds": SECONDS}
        flow = {"from": name, "to": "server", "port": 5001 + index, "traffic": traffic}
        flow |= {"sender": {"congestion": "cubic"}, "start_s": start_s}
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
            return list(json.load(file).values())


def jain(point, got):
    """Of the terminals that always want to send, by class."""
    each = [
        mbit / device(point, index)[1] for index, mbit in enumerate(got) if not is_idle(point, index)
    ]
    squares = sum(x * x for x in each)
    return sum(each) ** 2 / (len(each) * squares) if squares else 1.0


# Student's t for 95 %, by degrees of freedom.
STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13)


def around(values):
    """The mean of repeats and half its 95 % interval."""
    if len(values) < 2:
        return statistics.mean(values), math.inf
    student = STUDENT[len(values) - 2] if len(values) - 2 < len(STUDENT) else 2.0
    return statistics.mean(values), student * statistics.stdev(values) / math.sqrt(len(values))


def compare(point, bare, group):
    """The runs of a point with and without, seed by seed."""
    ratio, ratio_wide = around([sum(g) / sum(b) for g, b in zip(group, bare)])
    fairer, fairer_wide = around([jain(point, g) - jain(point, b) for g, b in zip(group, bare)])
    hungry = [i for i in range(point["terminals"]) if not is_idle(point, i)]
    worst = [min(statistics.mean(got[i] for got in runs) for i in hungry) for runs in (group, bare)]
    with_it = statistics.mean(jain(point, g) for g in group)
    return {
        "point": point,
        "mbit": statistics.mean(map(sum, bare)),
        "sum": ratio,
        "sum_wide": ratio_wide,
        "surely_less": ratio + ratio_wide < SUM,
        "jain": with_it,
        "jain_without": statistics.mean(jain(point, b) for b in bare),
        "fair": with_it >= FAIR or fairer >= -NO_WORSE,
        "surely_unfair": with_it < FAIR and fairer + fairer_wide < 0,
        "worst": worst[0] / worst[1] if worst[1] else 1.0,
    }


def told(point):
    return " ".join(f"{value}{' ms' if key == 'rtt_ms' else ''}" for key, value in point.items())


def of_points(number, among):
    """A share of points with the exact interval of Clopper and Pearson."""

    def at_most(n, share):
        return sum(math.comb(among, k) * share**k * (1 - share) ** (among - k) for k in range(n + 1))

    def solve(holds):
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if holds(middle) else (low, middle)
        return low

    least = solve(lambda share: 1 - at_most(number - 1, share) < 0.025) if number else 0.0
    most = solve(lambda share: at_most(number, share) > 0.025) if number < among else 1.0
    return f"{number / among:.0%} | {least:.0%} to {most:.0%}"


def of_median(values):
    """With the interval of order statistics."""
    values, number = sorted(values), len(values)
    below, total = 0, 0.0
    while below < number // 2 and total + math.comb(number, below) / 2**number <= 0.025:
        total += math.comb(number, below) / 2**number
        below += 1
    if not below:
        return f"{statistics.median(values):.2f} | "
    low, high = values[below - 1], values[number - below]
    return f"{statistics.median(values):.2f} | {low:.2f} to {high:.2f}"


def is_weak_and_unequal(row):
    return row["point"]["moments"] == "frequent" and row["point"]["rates"] == "unequal"


def verdicts(rows, chance, calm):
    """Each criterion, and beside it what chance alone gives, and what a calm air would."""

    def both(name, say, wanted):
        own, other = say(rows), say(chance).split(" | ")[0]
        print(f"| {name} | {own} | {other} | {wanted} |")

    def gain(rows):
        return of_median([r["sum"] for r in rows if is_weak_and_unequal(r)] or [1.0])

    def count(holds):
        return lambda rows: of_points(sum(map(holds, rows)), len(rows))

    def least(key):
        return lambda rows: f"{min(r[key] for r in rows):.3f} | "

    print("| | measured | 95 % | chance alone | wanted |")
    print("|---|---|---|---|---|")
    both(f"points where the sum, with ÷ without, is ≥ {SUM}", count(lambda r: r["sum"] >= SUM), "≥ 95 %")
    both(f"points where it is surely less than {SUM}", count(lambda r: r["surely_less"]), "")
    both("the least", least("sum"), f"≥ {SUM_NEVER}")
    both("median", lambda rows: of_median([r["sum"] for r in rows]), "")
    both("median of frequent weak moments and unequal terminals", gain, f"≥ {GAIN}")
    print(f"| the same, if these points had no weak moments | {gain(calm)} | | |")
    name = f"points where weighted Jain's index is ≥ {FAIR} or no worse than without"
    both(name, count(lambda r: r["fair"]), "100 %")
    name = f"points where it is surely worse, and less than {FAIR}"
    both(name, count(lambda r: r["surely_unfair"]), "")
    both("worst terminal, with ÷ without: median", lambda rows: of_median([r["worst"] for r in rows]), "")
    print()


def line(name, rows):
    if not rows:
        return
    sums = [r["sum"] for r in rows]
    print(
        f"| {name} | {len(rows)} | {statistics.median(sums):.2f} | {min(sums):.2f} | {max(sums):.2f} |"
        f" {sum(s >= SUM for s in sums)} | {statistics.median(r['jain_without'] for r in rows):.2f} |"
        f" {statistics.median(r['jain'] for r in rows):.2f} | {sum(r['fair'] for r in rows)} |"
        f" {statistics.median(r['worst'] for r in rows):.2f} |"
    )


def parts(rows):
    print(
        f"| points | number | sum, with ÷ without: median | least | most | ≥ {SUM} |"
        f" weighted Jain's index: without | with | ≥ {FAIR} or no worse | worst terminal |"
    )
    print("|" + "---|" * 10)
    line("all", rows)
    for key in ("moments", "rates", "load", "bottleneck", "terminals"):
        for value in SPACE[key]:
            line(f"{key}: {value}", [r for r in rows if r["point"][key] == value])
    for low, high in ((8, 32), (64, 128), (256, 512)):
        line(f"RTT {low} to {high} ms", [r for r in rows if low <= r["point"]["rtt_ms"] <= high])
    line("frequent, unequal", [r for r in rows if is_weak_and_unequal(r)])
    print()


def list_worst(rows, number):
    def show(r):
        print(
            f"| {told(r['point'])} | {r['mbit']:.1f} | {r['sum']:.3f} ± {r['sum_wide']:.3f} |"
            f" {r['jain_without']:.3f} | {r['jain']:.3f} |"
        )

    print("| point | without, Mbit/s | sum, with ÷ without | Jain's index without | with |")
    print("|---|---|---|---|---|")
    worst = sorted(rows, key=lambda r: r["sum"])[:number]
    unfair = sorted((r for r in rows if not r["fair"]), key=lambda r: r["jain"] - r["jain_without"])
    for r in worst + [r for r in unfair[:number] if r not in worst]:
        show(r)
    print()


def judge_lies(points, runs):
    print("| the first terminal reports | it gets, ÷ honest: median | 95 % | most | points where surely"
          f" more than {LIAR} | the others: median | 95 % | least | points where surely less than {OTHERS} |")
    print("|" + "---|" * 9)
    for name in ("the truth, 1 ms later", *LIES):
        own, others = [], []
        for number, _ in points:
            pairs = list(zip(runs[number, name], runs[number, "share"]))
            own.append(around([lied[0] / honest[0] for lied, honest in pairs]))
            others.append(around([sum(lied[1:]) / sum(honest[1:]) for lied, honest in pairs]))
        print(
            f"| {name} | {of_median([m for m, _ in own])} | {max(m for m, _ in own):.2f} |"
            f" {sum(m - wide > LIAR for m, wide in own)} | {of_median([m for m, _ in others])} |"
            f" {min(m for m, _ in others):.2f} | {sum(m + wide < OTHERS for m, wide in others)} |"
        )
    print()


def rules_of(words, function):
    return {"function": function, **words.rules}


def grouped(words):
    """Rules, lie, and the flows' start, by name; so are those of `lying`."""
    made = {"without": (None, None, 0.0), "chance": (None, None, LATER_S), "calm": (None, None, 0.0)}
    return made | {name: (rules_of(words, name), None, 0.0) for name in words.functions}


def lying(words):
    rules = rules_of(words, "share")
    made = {"share": (rules, None, 0.0), "the truth, 1 ms later": (rules, None, LATER_S)}
    return made | {name: (rules, lie, 0.0) for name, lie in LIES.items()}


def measure(words, points, made):
    """Mbit/s of the flows in all runs, by point and arm."""
    bench, jobs = Bench(words.cache), []
    for (number, point), arm in itertools.product(points, made):
        arranged = point | {"moments": "calm"} if arm == "calm" else point
        jobs += [(number, arranged, arm, number * 1000 + s) for s in range(words.seeds)]
    with ThreadPoolExecutor(words.jobs) as pool:
        ran = list(pool.map(lambda j: bench.run(scenario(j[1], j[3], *made[j[2]])), jobs))
    runs = {}
    for (number, _, arm, _), got in zip(jobs, ran):
        runs.setdefault((number, arm), []).append(got)
    return runs


def say_lies(words, points):
    print(f"{len(points)} points, {words.seeds} seeds each. The first terminal reports something else")
    print("than the truth, and decides by it; the group has `share`.\n")
    judge_lies(points, measure(words, points, lying(words)))


def say_groups(words, points):
    print(f"{len(points)} points, {words.seeds} seeds each, {SECONDS} s. *Chance alone*: the same runs")
    print(f"without a group, with flows that begin {LATER_S * 1000:.0f} ms later.\n")
    runs = measure(words, points, grouped(words))

    def rows(arm):
        return [compare(p, runs[n, "without"], runs[n, arm]) for n, p in points]

    for name in words.functions:
        print(f"## `{name}`\n")
        verdicts(rows(name), rows("chance"), rows("calm"))
        parts(rows(name))
        if words.worst:
            list_worst(rows(name), words.worst)


def page(words):
    print("# Groups at drawn points\n")
    print("What a group of terminals gains and loses by agreeing, in virtual time. Made by")
    half = {"train": "training", "report": "reported"}[words.half]
    print(f"`bench/groups.py --page`; points of the {half} half. [peer](peer.md#what-a-group-gains-and-loses) explains the words.\n")
    say_groups(words, drawn(words.half, words.points))
    print("## Terminals that lie\n")
    words.seeds = words.lies_seeds
    say_lies(words, drawn(words.half, words.lies_points))


def main():
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--half", choices=("train", "report"), default="train")
    words.add_argument("--points", type=int, default=60)
    words.add_argument("--seeds", type=int, default=5)
    words.add_argument("--functions", nargs="+", default=["share", "stabilise"])
    words.add_argument("--rules", type=json.loads, default={}, help="further rules, JSON")
    words.add_argument("--lies", action="store_true", help="the first terminal lies; `share`")
    words.add_argument("--page", action="store_true", help="all of it as a page, docs/groups.md")
    words.add_argument("--lies-points", type=int, default=9, help="of the page")
    words.add_argument("--lies-seeds", type=int, default=4, help="of the page")
    words.add_argument("--worst", type=int, default=0, help="also list so many points")
    words.add_argument("--jobs", type=int, default=os.cpu_count())
    words.add_argument("--cache", default=os.path.join(tempfile.gettempdir(), "transom-groups"))
    words = words.parse_args()
    if words.page:
        page(words)
    else:
        (say_lies if words.lies else say_groups)(words, drawn(words.half, words.points))


if __name__ == "__main__":
    main()
