"""A policy for the hosts, published and stepped as an operator would, and what became of it."""

import json
import re
import statistics
import subprocess
import time

import hosts
import programs

# As small as a window can be. Somebody hopes that queues stay short; it costs a round trip for each
# 3 kB. The harmless one is above what any connection here needs.
CAPS = {"bad": 2, "harmless": 10_000}
POLICY = """\
[[rule]]
name = "short queues"
match = {{ port = 80 }}
action = {{ cap = {cap} }}
"""
# Time with data on its way, for each byte that arrived: rows without BPF have no duration.
GATE = "time = busy_us / bytes_acked, higher, 20 %"
# What its author promises.
EXPECTED = "time=-10%..10%"
WINDOW, WINDOWS = 15, 6
# An agent's file has 20 s, its shipper looks each 15 s, and then they go.
LAG = 40
# Windows before the first wave, with which a host is compared.
BEFORE = 4


class Rollout:
    def __init__(self, fleet, kind):
        self.fleet, self.processes, self.folder = fleet, fleet.processes, fleet.folder
        self.kind, self.cap = kind, CAPS[kind]
        self.key, self.trusted = self.folder / "fleet.key", self.folder / "trusted"
        self.trusted.write_text(self.policy("key", self.key))
        for host in fleet.web:
            self.follow(host)

    def policy(self, *words):
        command = [str(word) for word in (self.fleet.fleet, "policy", *words)]
        done = subprocess.run(command, env=self.fleet.environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def follow(self, host):
        """Nothing listens on a host: it asks what is signed, and puts it in force."""
        folder = self.folder / f"{host}-policy"
        folder.mkdir()
        copy = [self.fleet.fleet, "follow", "--from", self.fleet.bucket, "--to", folder, "--every", "4s"]
        self.processes.start(f"{host}-copy", [*hosts.inside(host), *copy], env=self.fleet.environment)
        words = ["tune", "follow", folder, "--trust", self.trusted, "--host", host, "--every", "1s"]
        words += ["--state", self.folder / f"{host}-seen/seen.json", "--netns", hosts.namespace(host)]
        self.processes.start(f"{host}-tune", [programs.transom("transom"), *words])

    def told(self, host):
        """What `tune follow` said last of what is in force there."""
        lines = (self.folder / f"{host}-tune.log").read_text(errors="replace").splitlines()
        return next((line for line in reversed(lines) if "in force" in line), "")

    def wait(self, until, what, seconds):
        deadline = time.monotonic() + seconds
        while not (found := until()):
            self.processes.check()
            if time.monotonic() > deadline:
                raise RuntimeError(f"{what}: not in {seconds:.0f} s. {self.status()}")
            time.sleep(0.5)
        return found

    def status(self):
        return self.policy("status", "--from", self.fleet.bucket, "--trust", self.trusted)

    def publish(self):
        file = self.folder / "short-queues.toml"
        file.write_text(POLICY.format(cap=self.cap))
        where = ["--to", self.fleet.bucket, "--key", self.key]
        waves = ["--shares", "25%,100%", "--window", f"{WINDOW}s", "--windows", WINDOWS, "--lease", "5m"]
        said = self.policy("publish", file, *where, *waves, "--gate", GATE, "--expected", EXPECTED)
        self.first = re.search(r"published: (\S+) first", said)[1]
        words = [self.fleet.fleet, "policy", "step", *where, "--lag", f"{LAG}s", "--every", "5s"]
        self.steps = self.processes.start("steps", words, env=self.fleet.environment)
        return said.rstrip()

    def windows_there(self, seconds=6):
        """The median congestion window of the shop's connections on the first host, as the kernel has it."""
        words = ["ss", "-tinH", "state", "established", "sport", "=", ":80"]
        windows = []
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            said = subprocess.run([*hosts.inside(self.first), *words], capture_output=True, text=True)
            windows += [int(number) for number in re.findall(r" cwnd:(\d+)", said.stdout)]
            time.sleep(0.2)
        return statistics.median(windows) if windows else 0

    def tuned(self, host):
        """The connections that `tune status` names."""
        words = [programs.transom("transom"), "tune", "status", "--netns", hosts.namespace(host), "--json"]
        told = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
        return [line for line in told if "cookie" in json.loads(line)]

    def see_in_force(self):
        self.wait(lambda: "is in force" in self.told(self.first), f"generation 1 at {self.first}", 60)
        tuned = self.wait(lambda: self.tuned(self.first), f"a tuned connection at {self.first}", 30)
        window = self.windows_there()
        # A new connection begins with more, and has the cap from its first acknowledgement on.
        if not 0 < window <= self.cap:
            raise RuntimeError(f"{self.first}: a window of {window}, and the policy says {self.cap}")
        return len(tuned), window

    def judged(self, seconds):
        """The line of the step that ended it: taken back, or good at the end of its first wave."""
        ends = re.compile(r"^.*(?:takes it back|is good: the next).*$", re.MULTILINE)
        log = self.folder / "steps.log"
        return self.wait(lambda: ends.search(log.read_text(errors="replace")), "a verdict", seconds)[0]

    def see_taken_back(self):
        """On every host, and that new connections have what they had before."""
        def is_free(host):
            return "nothing is in force" in self.told(host) and not self.tuned(host)

        self.wait(lambda: "to have none" in self.told(self.first), f"taken back at {self.first}", 60)
        self.wait(lambda: all(map(is_free, self.fleet.web)), "taken back everywhere", 60)
        return self.wait(self.larger, f"windows above {self.cap} at {self.first}", 30)

    def larger(self):
        window = self.windows_there(3)
        return window if window > self.cap else None
