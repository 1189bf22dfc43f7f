#!/usr/bin/env python3
"""make bench: what recording costs, as ratios against the same load without it.

Each ratio compares neighbouring slices of a load (slices.py) and is the median
of many, so that a machine that slows down does so on both sides. Needs root.
Writes docs/benchmarks.md.
"""

import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from datetime import date
from functools import partial
from pathlib import Path

import empty
import slices
import watcher
import web

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
BUILT = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
TRANSOM, LOAD = BUILT / "transom", BUILT / "examples" / "load"
TRACEFS = Path("/sys/kernel/tracing")

ROUNDS = int(os.environ.get("ROUNDS", 16))
PAIRS = 7
SECONDS = 3
LOADS = [
    ("bulk", 1, "one bulk transfer", 0.97),
    ("small", 2, "100-byte segments, 2 connections", 0.90),
    ("echo", 4, "100-byte requests and replies, 4 connections", 0.95),
]

# Filters that no connection of a load passes.
BYSTANDERS = {
    ("--port", "1"): "by port",
    ("--pid", str(os.getpid())): "by process, which the probes of all system calls tell",
}


def load(mode, connections, seconds=SECONDS):
    """Bytes or messages a second."""
    words = [LOAD, mode, str(seconds), str(connections)]
    return float(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


class Observer:
    """A program that watches while the load runs, and what it used."""

    def __init__(self, words, ready, **more):
        self.process = subprocess.Popen(words, **more)
        self.ready = ready
        deadline = time.monotonic() + 30
        while not ready() and time.monotonic() < deadline:
            time.sleep(0.05)

    def cpu(self):
        """CPU seconds so far: what comes later turns the recording into Parquet."""
        words = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self, signal):
        """CPU seconds and the most memory in bytes."""
        self.process.send_signal(signal)
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = status
        return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def programs():
    """Runs and time of each of the newest programs with their name."""
    text = subprocess.run(["bpftool", "-j", "prog", "show"], capture_output=True, text=True).stdout
    newest = {}
    for program in json.loads(text or "[]"):
        newest[program.get("name", "?")] = program
    return newest


def record(path, *more):
    before = {p["id"] for p in programs().values()}

    def ready():
        state = programs().get("tp_send")
        return state is not None and state["id"] not in before and path.exists()

    words = [TRANSOM, "record", "--force", "-o", path, *more]
    with open(path.with_suffix(".log"), "w") as log:
        return Observer(words, ready, stderr=log)


def summary(said):
    """Events, bytes an event and losses, as the recorder itself says."""
    events = re.search(r"(\d+) events, .* \(([\d.]+) B each\)", said)
    lost = sum(map(int, re.findall(r"(\d+) events were lost", said)))
    return int(events[1]), float(events[2]), lost


SIGINT = 2


class Recordings:
    """Starts recordings, and keeps what each used, and said at its end."""

    def __init__(self, where):
        self.path, self.ended = where / "recording.parquet", []

    @contextmanager
    def running(self, *more):
        observer = record(self.path, *more)
        began, used = time.monotonic(), observer.cpu()
        try:
            yield
        finally:
            took, used = time.monotonic() - began, observer.cpu() - used
            _, memory = observer.stop(SIGINT)
            log = self.path.with_suffix(".log")
            self.ended.append({"took": took, "cpu": used, "memory": memory, "said": log.read_text()})
            for file in self.path.parent.glob(f"{self.path.stem}.*"):
                file.unlink()

    def number(self, pattern):
        """Of all recordings together."""
        return sum(int(n) for each in self.ended for n in re.findall(pattern, each["said"]))


def measure_loads(where):
    results = {}
    for mode, connections, name, _ in LOADS:
        recordings, under = Recordings(where), slices.Load(LOAD, mode, connections)
        found = slices.ratios(under, {"empty": empty.programs, "record": recordings.running}, ROUNDS)
        under.stop()
        results[mode] = found["record"][0], found["empty"][0], recordings
        print(f"  {name}: {slices.middle(found['record'][0])}, empty programs "
              f"{slices.middle(found['empty'][0])}", flush=True)
    return results


def measure_packets(where):
    """`record --pcap`: the ratio, and how many packets were captured, and how many were not in time."""
    results = {}
    for mode, connections, name, _ in LOADS:
        recordings, under = Recordings(where), slices.Load(LOAD, mode, connections)
        capturing = partial(recordings.running, "--pcap", recordings.path.with_suffix(".pcapng"))
        (rates,) = slices.ratios(under, {"packets": capturing}, ROUNDS // 2)["packets"]
        under.stop()
        results[mode] = rates, recordings.number(r"(\d+) packets beside"), recordings.number(r"(\d+) packets were not")
        print(f"  {name}, with packets: {slices.middle(rates)}", flush=True)
    return results


def measure_bystanders(where):
    """What a recording of other connections costs the requests and replies of 4 connections."""
    recordings, under = Recordings(where), slices.Load(LOAD, "echo", 4)
    watchers = {words: partial(recordings.running, *words) for words in BYSTANDERS}
    found = slices.ratios(under, watchers, ROUNDS // 2)
    under.stop()
    return {words: rates for words, (rates,) in found.items()}


def measure_web(where):
    recordings = Recordings(where)
    with web.server(where):
        found = slices.ratios(slices.Web(), {"empty": empty.programs, "record": recordings.running}, ROUNDS)
    print(f"  nginx: {slices.middle(found['record'][0])}, p99 {slices.middle(found['record'][1])}", flush=True)
    return found["record"], found["empty"]


def paced_cpu(observer=None):
    """CPU seconds a second, of the transfer and of who watches it, and the rate in bits a second."""
    before, used, began = observer.cpu() if observer else 0, resource.getrusage(
        resource.RUSAGE_CHILDREN), time.monotonic()
    rate = load("paced", 1) * 8
    took, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    if observer:
        cpu += observer.cpu() - before
    return cpu / took, rate


def measure_paced(where):
    """A transfer at 1 Gbit/s: what it costs the machine, without and with a recording."""
    without, with_it, rates = [], [], []
    for pair in range(PAIRS):
        cpu, rate = paced_cpu()
        without.append(cpu)
        rates.append(rate)
        observer = record(where / f"paced{pair}.parquet")
        cpu, rate = paced_cpu(observer)
        observer.stop(SIGINT)
        with_it.append(cpu)
        rates.append(rate)
        print(f"  paced {pair}: {without[-1]:.3f} and {with_it[-1]:.3f} of a core", flush=True)
    return {"without": statistics.median(without), "with": statistics.median(with_it),
            "more": statistics.median(b - a for a, b in zip(without, with_it)),
            "rate": min(rates)}


@contextmanager
def tracefs():
    """bpftrace looks tracepoints up there."""
    mounted = not (TRACEFS / "events").exists()
    if mounted:
        subprocess.run(["mount", "-t", "tracefs", "tracefs", TRACEFS], check=True)
    try:
        yield
    finally:
        if mounted:
            subprocess.run(["umount", TRACEFS], check=False)


def mean_ns(program):
    return program["run_time_ns"] / max(program["run_cnt"], 1)


def measure_floor():
    """The same clock around a program that does next to nothing, on the same tracepoint."""
    name = "net_dev_queue"
    words = ["bpftrace", "-e", f"tracepoint:net:{name} /pid == 1/ {{ exit() }}"]
    with tracefs():
        observer = Observer(words, lambda: name in programs(), stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)
        load("echo", 2)
        floor = mean_ns(programs()[name])
        observer.stop(SIGINT)
    return floor


def measure_cost(where):
    """Nanoseconds in the kernel, by the kernel's own clock of BPF programs."""
    with watcher.counted():
        cost = {}
        for mode, connections, _, _ in LOADS:
            path = where / "cost.parquet"
            path.unlink(missing_ok=True)
            observer = record(path)
            load(mode, connections)
            now = programs()
            observer.stop(SIGINT)
            for name in ("tp_ack", "tp_send", "tp_sendmsg", "tp_recvmsg"):
                program = now[name]
                cost[mode, name] = mean_ns(program)
        return cost, measure_floor()


def bpf_seconds(names):
    return sum(p.get("run_time_ns", 0) for n, p in programs().items() if n in names) / 1e9


def measure_rivals(where):
    """CPU an event: user and system time of the observer, and its probes' time in the kernel."""
    with watcher.counted():
        path = where / "rival.parquet"
        observer = record(path)
        begun = observer.cpu()
        load("echo", 2)
        ours_kernel = bpf_seconds({n for n in programs() if n.startswith("tp_")})
        recorder = observer.cpu() - begun
        cpu, _ = observer.stop(SIGINT)
        events, _, _ = summary(path.with_suffix(".log").read_text())
        ours = (cpu + ours_kernel) / events
        ours_live = (recorder + ours_kernel) / events

        out = where / "bpftrace.out"
        with tracefs(), open(out, "w") as sink:
            words = ["bpftrace", HERE / "tcp_probe.bt"]
            rival = Observer(words, lambda: out.stat().st_size > 0, stdout=sink,
                             stderr=subprocess.DEVNULL)
            load("echo", 2)
            kernel = bpf_seconds({"tcp_probe"})
            cpu, _ = rival.stop(SIGINT)
        lines = sum(1 for _ in open(out)) - 1
        bpftrace = (cpu + kernel) / lines

        background = subprocess.Popen([LOAD, "echo", "2", "2"], stdout=subprocess.DEVNULL)
        samples, polls, end = 0, 0, time.monotonic() + 1.5
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        while time.monotonic() < end:
            due = time.monotonic() + 0.01
            text = subprocess.run(["ss", "-tiH"], capture_output=True, text=True).stdout
            samples += text.count("cwnd:")
            polls += 1
            time.sleep(max(0, due - time.monotonic()))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        background.wait()
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return {"ours": ours, "live": ours_live, "bpftrace": bpftrace, "ss": used / max(samples, 1),
                "polls": polls / 1.5, "events": events, "lines": lines}


def measure_report(where):
    """A trace of about a million events: seconds and bytes of the page."""
    path = where / "million.parquet"
    seconds, events = 2.0, 0
    while events < 1_000_000 and seconds < 60:
        path.unlink(missing_ok=True)
        observer = record(path)
        load("echo", 2, seconds)
        observer.stop(SIGINT)
        events, _, _ = summary(path.with_suffix(".log").read_text())
        seconds *= 1.1 * max(1.2, 1_000_000 / max(events, 1))
    page = where / "million.html"
    began = time.monotonic()
    subprocess.run([TRANSOM, "report", path, "-o", page], check=True, capture_output=True)
    return events, time.monotonic() - began, page.stat().st_size


def machine():
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return (f"{cpu[1] if cpu else platform.machine()}, {os.cpu_count()} cores (a virtual machine), "
            f"Linux {platform.release()}, {date.today()}")


def verdict(good):
    return "reached" if good else "**missed**"


def write_loads(results):
    lines = ["| load | with ÷ without | empty programs | events/s | lost | recorder, ns an event "
             "| bytes an event | memory | target |", "|---|---|---|---|---|---|---|---|---|"]
    for mode, _, name, target in LOADS:
        rates, floors, recordings = results[mode]
        ended = [(each, *summary(each["said"])) for each in recordings.ended]
        events = statistics.median(n / each["took"] for each, n, _, _ in ended)
        cpu = statistics.median(each["cpu"] / n for each, n, _, _ in ended)
        size, lost = statistics.median(size for _, _, size, _ in ended), sum(lost for *_, lost in ended)
        memory = max(each["memory"] for each in recordings.ended)
        lines.append(
            f"| {name} | {slices.middle(rates)} | {slices.middle(floors)} | {events:,.0f} | {lost} "
            f"| {cpu * 1e9:.0f} | {size:.1f} | {memory / 2**20:.0f} MiB "
            f"| ≥ {target}: {verdict(statistics.median(rates) >= target)} |")
    return lines


def write_packets(packets):
    return ["| load | with ÷ without | packets | not captured in time |", "|---|---|---|---|"] + [
        f"| {name} | {slices.middle(packets[mode][0])} | {packets[mode][1]:,} | {packets[mode][2]:,} |"
        for mode, _, name, _ in LOADS]


def write_bystanders(ratios):
    return ["| filter | with ÷ without |", "|---|---|"] + [
        f"| {name} | {slices.middle(ratios[words])} |" for words, name in BYSTANDERS.items()]


def write_life(nginx, paced):
    (rates, tails), (floors, floor_tails) = nginx
    return [
        f"nginx with one worker and wrk with 32 connections in slices of {slices.WEB_SLICE} s, and a transfer that is "
        "paced at 1 Gbit/s. CPU is that of the transfer's program and of the recorder, in per cent "
        "of one core.", "",
        "| load | measure | without | with | with ÷ without | empty programs | target |",
        "|---|---|---|---|---|---|---|",
        f"| nginx | requests/s | | | {slices.middle(rates)} | {slices.middle(floors)} "
        f"| ≥ 0.97: {verdict(statistics.median(rates) >= 0.97)} |",
        f"| nginx | 99th percentile of the latency | | | {slices.middle(tails)} "
        f"| {slices.middle(floor_tails)} | ≤ 1.05: {verdict(statistics.median(tails) <= 1.05)} |",
        f"| {paced['rate'] / 1e9:.2f} Gbit/s | CPU | {paced['without'] * 100:.1f} % "
        f"| {paced['with'] * 100:.1f} % | {paced['with'] / paced['without']:.3f} | | |",
    ]


def write(results, packets, life, bystanders, kernel, rivals, report):
    cost, floor = kernel
    lines = [
        "# Benchmarks", "",
        f"Measured by `make bench` on {machine()}. A load over loopback runs on; each ratio is that "
        f"of a slice of {slices.SLICE} s with `transom record` of every event to the slices without "
        f"before and after it, as the median of {ROUNDS}. The brackets enclose the middle half. "
        "*Empty programs* is the same ratio with programs that do nothing on the two tracepoints: "
        "what the kernel itself takes to call them, below which no recording can get.", "",
        *write_loads(results),
        "", "Bytes an event are those of the Parquet file (target ≤ 16). Memory is the recorder's "
        "largest resident set, including the rings (target ≤ 64 MiB).", "",
        "## Loads that look like life", "",
        *write_life(*life), "",
        "## Connections that are not recorded", "",
        "The requests and replies of 4 connections, while other connections are recorded: what a "
        "filter costs those that do not pass it.", "",
        *write_bystanders(bystanders), "",
        "## With packets", "",
        "`transom record --pcap` captures the headers of all packets, too.", "",
        *write_packets(packets), "",
        "## In the kernel", "",
        "`run_time_ns / run_cnt` of the BPF programs during a recording, in ns, including writing "
        f"the record. An empty program on the same tracepoint takes {floor:.0f} ns, most of which "
        "is the kernel reading its clock twice for these statistics. The target is 150 ns more. "
        "The programs of the last two columns are attached only while there are connections whose "
        "program is not yet known ([limits](limits.md)).", "",
        "| load | tp_ack | tp_send | mean of both | tp_sendmsg | tp_recvmsg |",
        "|---|---|---|---|---|---|",
    ]
    for mode, _, name, _ in LOADS:
        c = {n: cost[mode, n] for n in ("tp_ack", "tp_send", "tp_sendmsg", "tp_recvmsg")}
        mean = (c["tp_ack"] + c["tp_send"]) / 2
        lines.append(f"| {name} | {c['tp_ack']:.0f} | {c['tp_send']:.0f} | {mean:.0f}: "
                     f"{verdict(mean - floor <= 150)} | {c['tp_sendmsg']:.0f} "
                     f"| {c['tp_recvmsg']:.0f} |")
    ratio = rivals["ours"] / rivals["bpftrace"]
    per_million = report[1] / report[0] * 1e6
    lines += [
        "", "## Compared with other tools", "",
        "All tools ran under the same load (requests and replies, 2 connections). The table shows "
        "the CPU time of the tool's process and of its probes in the kernel, divided by the number "
        "of events, lines or samples. bpftrace prints the same fields from `tcp_probe` only "
        "(`bench/tcp_probe.bt`); `ss -ti` runs every 10 ms and prints samples.", "",
        "| tool | output | CPU, µs each |", "|---|---|---|",
        f"| transom record | {rivals['events']:,} events | {rivals['ours'] * 1e6:.2f} |",
        f"| bpftrace | {rivals['lines']:,} lines | {rivals['bpftrace'] * 1e6:.2f} |",
        f"| ss -ti, {rivals['polls']:.0f} polls/s | samples | {rivals['ss'] * 1e6:.0f} |",
        "", f"Transom ÷ bpftrace: {ratio:.2f} (target ≤ 0.33: {verdict(ratio <= 1 / 3)}). The "
        "time of `transom record` includes the Parquet file that is made at the end; while it "
        f"records, kernel and recorder take {rivals['live'] * 1e6:.2f} µs per event (target ≤ 0.6: "
        f"{verdict(rivals['live'] <= 0.6e-6)}).", "",
        "## The report", "",
        f"{report[0]:,} events: page in {report[1]:.1f} s, {per_million:.1f} s per million, {report[2] / 1e6:.1f} MB "
        f"(targets: 1 million in < 5 s: {verdict(per_million < 5)}; < 5 MB: "
        f"{verdict(report[2] < 5e6)}).", "",
    ]
    (ROOT / "docs" / "benchmarks.md").write_text("\n".join(lines))
    print("\n".join(lines))


def main():
    if os.geteuid() != 0:
        sys.exit("bench: the probes need root: sudo make bench")
    for program in ("bpftool", "bpftrace", "ss", *web.PROGRAMS):
        if subprocess.run(["which", program], capture_output=True).returncode:
            sys.exit(f"bench: {program} is missing: apt-get install bpftool bpftrace iproute2 nginx wrk")
    with tempfile.TemporaryDirectory() as name:
        where = Path(name)
        results, packets = measure_loads(where), measure_packets(where)
        life = measure_web(where), measure_paced(where)
        bystanders = measure_bystanders(where)
        write(results, packets, life, bystanders, measure_cost(where), measure_rivals(where), measure_report(where))


if __name__ == "__main__":
    main()
