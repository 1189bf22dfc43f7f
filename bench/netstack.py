#!/usr/bin/env python3
"""What Linux as a library costs, beside the stack of the host: ratios of neighbouring runs.

netstack.py PROGRAM [rate] [phone] [bulk] [multipath] [connect] [start]

PROGRAM is transom-netstack. Makes two network namespaces, so it needs root; they are gone at the
end. Markdown on standard output.
"""

import ctypes
import os
import pathlib
import resource
import signal
import statistics
import subprocess
import sys
import time

PEER = str(pathlib.Path(__file__).with_name("netstack_peer.py"))
SOAKER = str(pathlib.Path(__file__).with_name("soaker.py"))
A, B = f"tx-bench-{os.getpid()}a", f"tx-bench-{os.getpid()}b"
PORT = "7000"
SECONDS = "4"
REPEATS = 3
NOTHING = ["python3", PEER, "nothing"]
TICK = os.sysconf("SC_CLK_TCK")


def ip(words):
    subprocess.run(["ip", *words.split()], check=True)


def inside(namespace, command):
    return ["ip", "netns", "exec", namespace, *command]


def lay_paths():
    ip(f"netns add {A}")
    ip(f"netns add {B}")
    for n in (0, 1):
        ip(f"-n {A} link add c{n} type veth peer name s{n} netns {B}")
        for space, name, last in ((A, f"c{n}", 1), (B, f"s{n}", 2)):
            ip(f"-n {space} addr add 10.70.{n}.{last}/24 dev {name}")
            ip(f"-n {space} link set {name} up")
        # Of the host's own MPTCP: each source address has its path.
        ip(f"-n {A} rule add from 10.70.{n}.1 table 10{n}")
        ip(f"-n {A} route add default via 10.70.{n}.2 dev c{n} table 10{n}")
    ip(f"-n {A} route add default via 10.70.1.2 dev c1 metric 9")
    ip(f"-n {A} mptcp endpoint add 10.70.1.1 dev c1 subflow")


def limit(rate):
    """Both ends of both paths send no faster; None: as fast as they can."""
    for space, side in ((A, "c"), (B, "s")):
        for n in (0, 1):
            tc = ["tc", "qdisc", "replace" if rate else "del", "dev", f"{side}{n}", "root"]
            if rate:
                tc += ["tbf", "rate", rate, "burst", "32kb", "latency", "50ms"]
            subprocess.run(inside(space, tc), check=bool(rate), stderr=subprocess.DEVNULL)


def busy():
    """CPU time of the whole machine that was not idle, in seconds."""
    with open("/proc/stat") as stat:
        user, nice, system, _, _, irq, softirq = map(int, stat.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / TICK


class Run:
    """One client to its end: what it printed, CPU seconds of it and of the whole machine."""

    def __init__(self, command):
        before, machine = resource.getrusage(resource.RUSAGE_CHILDREN), busy()
        done = subprocess.run(inside(A, command), capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            sys.exit(f"{' '.join(command)}: {done.stderr}")
        self.said = [float(word) for word in done.stdout.split()]
        self.own = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        self.machine = busy() - machine

    def without(self, start):
        self.own -= start.own
        self.machine -= start.machine
        return self


def library(*options):
    return [PROGRAM, *options, "--"]


def median(values):
    return statistics.median(values)


def spread(values, digits=2):
    low, high = min(values), max(values)
    return f"{median(values):.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def client(way, server="10.70.0.2", mptcp=False):
    return ["python3", PEER, way, server, PORT, SECONDS, *(["mptcp"] if mptcp else [])]


def pairs(name, unit):
    """One path, both ways: the host, then the library, so often. Of both, what starting and ending
    costs is taken away: `start` has that."""
    for way in ("up", "down"):
        host, ours = [], []
        for _ in range(REPEATS):
            host.append(Run(client(way)).without(Run(NOTHING)))
            with_path = library("--path", "c0")
            ours.append(Run(with_path + client(way)).without(Run(with_path + NOTHING)))
        rates = [[run.said[0] / unit for run in runs] for runs in (host, ours)]
        ratio = lambda of: spread([of(b) / of(a) for a, b in zip(host, ours)])
        print(
            f"| {name}, {way} | {median(rates[0]):.1f} | {median(rates[1]):.1f} "
            f"| {ratio(lambda run: run.said[0])} "
            f"| {median([run.own for run in host]) / float(SECONDS):.3f} "
            f"| {median([run.own for run in ours]) / float(SECONDS):.3f} "
            f"| {ratio(lambda run: run.own / run.said[0])} "
            f"| {ratio(lambda run: run.machine / run.said[0])} |",
            flush=True,
        )


HEADER = """
| one path | host | library | library / host | cores: host's client | cores: library's | CPU a byte, library / host | same, whole machine |
|---|---|---|---|---|---|---|---|"""


def rate():
    print(HEADER)
    limit("100mbit")
    pairs("100 Mbit/s; Mbit/s", 1e6)


class Soaker:
    """How much of a processor is left over, by how often a loop of the lowest priority comes round
    (as netperf's looper): softirqs count too, whomever the kernel charges them to."""

    def __init__(self, cpu):
        command = ["taskset", "-c", str(cpu), "python3", SOAKER]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()

    def rounds(self):
        self.process.send_signal(signal.SIGUSR1)
        return int(self.process.stdout.readline())

    def during(self, command):
        """Rounds in the time of a command that takes SECONDS."""
        before, begun = self.rounds(), time.monotonic()
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        time.sleep(max(0, begun + float(SECONDS) + 1.5 - time.monotonic()))
        return (self.rounds() - before) / (time.monotonic() - begun), [float(word) for word in said.split()]


def processors(phone, server, of_server):
    """Masks of the processors on which each side's packets are processed (RPS; 0: wherever they
    come), and which the server may use."""
    for space, name, mask in ((A, "c0", phone), (B, "s0", server)):
        steer = f"echo {mask:x} > /sys/class/net/{name}/queues/rx-0/rps_cpus"
        subprocess.run(inside(space, ["sh", "-c", steer]), check=True)
    command = ["taskset", "-ap", f"{of_server:x}", str(peer.pid)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def phone():
    """All that the phone's side takes, at the rate of a phone's Wi-Fi: programs, library, kernel."""
    if os.cpu_count() < 2:
        sys.exit("phone: needs two processors, one for each side")
    print("\n| 100 Mbit/s, all of the phone's processor | host, cores | library, cores | CPU a byte, library / host |")
    print("|---|---|---|---|")
    limit("100mbit")
    # The phone has processor 0, the server 1.
    processors(1, 2, 2)
    soaker = Soaker(0)
    try:
        for way in ("up", "down"):
            cores, ratios = [[], []], []
            for _ in range(REPEATS):
                run = []
                for stack in ([], library("--path", "c0")):
                    idle, _ = soaker.during(["sleep", SECONDS])
                    busy, said = soaker.during(inside(A, ["taskset", "-c", "0", *stack, *client(way)]))
                    run.append((1 - busy / idle, said[0]))
                ratios.append(run[1][0] / run[1][1] / (run[0][0] / run[0][1]))
                for all_runs, (used, _) in zip(cores, run):
                    all_runs.append(used)
            print(f"| {way} | {spread(cores[0], 3)} | {spread(cores[1], 3)} | {spread(ratios)} |", flush=True)
    finally:
        soaker.process.kill()
        processors(0, 0, (1 << os.cpu_count()) - 1)


def bulk():
    print(HEADER)
    limit(None)
    pairs("unlimited; Gbit/s", 1e9)


def multipath():
    print("\n| two paths of 100 Mbit/s | first | second | both | both / sum | host's MPTCP | of the host: both / sum |")
    print("|---|---|---|---|---|---|---|")
    limit("100mbit")
    for way in ("up", "down"):
        rows = []
        for _ in range(REPEATS):
            runs = [
                library("--path", "c0") + client(way),
                library("--path", "c1") + client(way, "10.70.1.2"),
                library("--mptcp", "--path", "c0", "--path", "c1") + client(way),
                client(way),
                client(way, "10.70.1.2"),
                client(way, mptcp=True),
            ]
            rows.append([Run(run).said[0] / 1e6 for run in runs])
        a, b, both, host_a, host_b, host = map(list, zip(*rows))
        ours = [c / (x + y) for x, y, c in zip(a, b, both)]
        hosts = [c / (x + y) for x, y, c in zip(host_a, host_b, host)]
        print(
            f"| {way}; Mbit/s | {median(a):.1f} | {median(b):.1f} | {median(both):.1f} "
            f"| {spread(ours)} | {median(host):.1f} | {spread(hosts)} |",
            flush=True,
        )


def connect():
    limit(None)
    # Each run of the library begins with the same ports, but with another clock: a server that
    # keeps those of the run before in TIME-WAIT would have each SYN sent twice (RFC 6191).
    subprocess.run(inside(B, ["sysctl", "-qw", "net.ipv4.tcp_max_tw_buckets=0"]), check=True)
    number = "2000"
    command = ["python3", PEER, "connect", "10.70.0.2", PORT, number]
    ways = {
        "host": command,
        "transom run --stack host": library("--stack", "host") + command,
        "transom run": library("--path", "c0") + command,
    }
    print(f"\n| socket() + connect(), {number} one after the other | median, us | 95 %, us | over the host, us |")
    print("|---|---|---|---|")
    took = {name: [] for name in ways}
    for _ in range(REPEATS):
        for name, way in ways.items():
            took[name].append(Run(way).said)
    for name, rows in took.items():
        over = [row[0] - host[0] for row, host in zip(rows, took["host"])]
        print(
            f"| {name} | {median([row[0] for row in rows]):.0f} "
            f"| {median([row[1] for row in rows]):.0f} | {spread(over, 0)} |"
        )


def start():
    ways = {
        "host": ["true"],
        "transom run --stack host": library("--stack", "host") + ["true"],
        "transom run": library("--path", "c0") + ["true"],
    }
    print("\n| `true`, 20 times | median, ms | range |")
    print("|---|---|---|")
    namespace = os.open(f"/run/netns/{A}", os.O_RDONLY)
    setns = ctypes.CDLL(None).setns
    for name, way in ways.items():
        took = []
        for _ in range(20):
            begun = time.perf_counter()
            subprocess.run(way, check=True, preexec_fn=lambda: setns(namespace, 0))
            took.append((time.perf_counter() - begun) * 1000)
        print(f"| {name} | {median(took):.0f} | {min(took):.0f}-{max(took):.0f} |")


PARTS = {"rate": rate, "phone": phone, "bulk": bulk, "multipath": multipath, "connect": connect, "start": start}

if len(sys.argv) < 2 or any(part not in PARTS for part in sys.argv[2:]):
    sys.exit(__doc__)
PROGRAM = os.path.realpath(sys.argv[1])
signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
peer = None
try:
    lay_paths()
    peer = subprocess.Popen(
        inside(B, ["python3", PEER, "server", PORT]), stdout=subprocess.PIPE, process_group=0
    )
    peer.stdout.readline()
    for part in sys.argv[2:] or PARTS:
        PARTS[part]()
finally:
    if peer:
        os.killpg(peer.pid, 9)
        peer.wait()
    for namespace in (A, B):
        subprocess.run(["ip", "netns", "del", namespace], stderr=subprocess.DEVNULL)
