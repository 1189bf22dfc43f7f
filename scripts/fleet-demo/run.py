#!/usr/bin/env python3
"""make fleet-demo: a fleet on this machine, a customer whose path loses packets, and a bad policy.

    scripts/fleet-demo/run.py [--keep] [--without-prometheus] [--harmless]

Takes about four minutes; --harmless is the control, whose policy nobody notices; with --keep all stays up until Ctrl-C. docs/fleet-demo.md says what it shows.
TRANSOM_PROGRAMS names the folder of Transom's programs if that is not target/release.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

import hosts
import leftovers
import programs
import rollout

BUCKET = "s3://tables/fleet"
# A gate needs 20 hosts beside those that have a policy.
HOSTS = 24
# The whole run must fit into five minutes.
MOST_SECONDS = 270
WITHOUT_PROMETHEUS = "--without-prometheus"
BAD, SLOW, GOOD = (f"{hosts.PREFIXES[name]}.7" for name in ("lossy", "slow", "cable"))
EXPECTED = {BAD: "Their network.", SLOW: "Them.", GOOD: "Nobody stands out"}
CONNECTIONS_A_SECOND = 7
AGENT = """\
source = "sock_diag"
file_seconds = 20
look_seconds = 5
metrics = "{address}:9464"
"""
PROMETHEUS = """\
global: {{ scrape_interval: 5s }}
scrape_configs:
  - job_name: transom
    static_configs:
{targets}
"""
# Set anew when all that is needed is there: what is fetched once takes as long as the network does.
BEGAN = time.monotonic()


def say(text=""):
    print(f"[{time.monotonic() - BEGAN:3.0f} s] {text}" if text else "", flush=True)


def free_port(wished):
    for port in (wished, 0):
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind(("127.0.0.1", port))
                return sock.getsockname()[1]
            except OSError:
                continue
    raise RuntimeError("no free port")


def fetched(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read().decode()


class Fleet:
    def __init__(self, processes, wanted):
        self.processes, self.wanted, self.folder, self.bucket = processes, wanted, processes.folder, BUCKET
        self.web = [f"web-{number}" for number in range(1, HOSTS + 1)]
        self.fleet = programs.transom("transom-fleet")
        python = programs.python()
        self.python = python
        home = self.folder / "home"
        duckdb = programs.duckdb(python, home)
        self.environment = {**os.environ, "HOME": str(home), "TRANSOM_DUCKDB": str(duckdb)}
        self.environment.update(AWS_ACCESS_KEY_ID="demo", AWS_SECRET_ACCESS_KEY="demo")
        self.environment.update(AWS_REGION="us-east-1", AWS_ALLOW_HTTP="true")

    def put_up(self):
        self.lab = hosts.Lab(self.processes, self.web)
        say(f"{len(self.web)} hosts and {len(hosts.PREFIXES)} networks of customers are up, in network namespaces")
        self.start_store()
        for host in self.web:
            self.start_host(host)
        self.wait_for_agents()
        say(f"each host has a shop, an agent and a shipper, which ships to {BUCKET} of an S3 server (moto)")
        if self.wanted.prometheus:
            self.start_prometheus()
        self.start_customers()

    def start_store(self):
        words = [self.python, hosts.HERE / "store.py", hosts.OPERATOR, "tables"]
        child = self.processes.start("store", words, pipe=True, text=True)
        port = child.stdout.readline().strip()
        if not port:
            raise RuntimeError(f"the S3 server did not start; it said: {self.processes.said('store')}")
        self.environment["AWS_ENDPOINT_URL"] = f"http://{hosts.OPERATOR}:{port}"

    def start_host(self, host):
        inside = hosts.inside(host)
        shop = [sys.executable, hosts.HERE / "web.py", self.lab.addresses[host], "80"]
        self.processes.start(f"{host}-shop", [*inside, *shop])
        spool, config = self.folder / host, self.folder / f"{host}.toml"
        config.write_text(AGENT.format(address=hosts.operators_address(host)))
        agent = [programs.transom("transom-agent"), "--config", config, "--spool", spool]
        # Without a privilege it sees no namespace but its own; with one, all of the machine.
        without = [programs.tool("setpriv", "util-linux"), "--bounding-set=-all", "--inh-caps=-all"]
        self.processes.start(f"{host}-agent", [*inside, *without, *agent])

    def wait_for_agents(self):
        for host in self.web:
            while "rows of connections go to" not in self.processes.said(f"{host}-agent"):
                self.processes.check()
                time.sleep(0.1)
            state = self.folder / f"{host}-shipped"
            state.mkdir()
            ship = [self.fleet, "ship", "--spool", self.folder / host, "--to", BUCKET]
            ship = [*hosts.inside(host), *ship, "--host", host, "--state", state]
            self.processes.start(f"{host}-ship", ship, env=self.environment)

    def start_prometheus(self):
        target = "      - {{ targets: ['{}:9464'], labels: {{ host: {} }} }}"
        targets = [target.format(hosts.operators_address(host), host) for host in self.web]
        config = self.folder / "prometheus.yml"
        config.write_text(PROMETHEUS.format(targets="\n".join(targets)))
        at = f"127.0.0.1:{free_port(9090)}"
        words = [programs.prometheus(), f"--config.file={config}", f"--web.listen-address={at}"]
        self.processes.start("prometheus", [*words, f"--storage.tsdb.path={self.folder / 'tsdb'}"])
        self.prometheus = f"http://{at}"
        say(f"Prometheus scrapes the agents: {self.prometheus}")

    def start_customers(self):
        servers = [self.lab.addresses[host] for host in self.web]
        for network, prefix in hosts.PREFIXES.items():
            read_bytes = 8192 if network == "slow" else 0
            words = [sys.executable, hosts.HERE / "customers.py", prefix, CONNECTIONS_A_SECOND, read_bytes]
            self.processes.start(f"customers-{network}", [*hosts.inside(network), *words, *servers])
        self.customers_began = time.monotonic()
        say(f"customers of {', '.join(f'{prefix}.0/24' for prefix in hosts.PREFIXES.values())} fetch pages")

    def ask(self, *words, check=True):
        command = [str(word) for word in (self.fleet, *words, "--from", BUCKET)]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout if not done.returncode else None

    def explain(self, customer, expected):
        """Asks until enough has landed."""
        said = None
        while not said or f"\n{expected}" not in said:
            self.processes.check()
            if time.monotonic() - BEGAN > MOST_SECONDS:
                raise RuntimeError(f"{customer}: not '{expected}' in time: {said}")
            time.sleep(5)
            words = ["explain", "--customer", customer, "--at", time.strftime("%Y-%m-%dT%H:%M", time.gmtime())]
            said = self.ask(*words, check=False)
        say(f"transom-fleet {' '.join(words)}")
        # Of the others, the sentence is enough.
        print(said if customer == BAD else "".join(said.splitlines(True)[:4]), flush=True)

    def roll_out(self):
        """A policy, until it is in force on its first host."""
        policy = rollout.Rollout(self, "harmless" if self.wanted.harmless else "bad")
        before = self.customers_began + rollout.BEFORE * rollout.WINDOW - time.monotonic()
        time.sleep(max(0, before))
        say("transom-fleet policy publish short-queues.toml")
        print(policy.publish(), flush=True)
        tuned, window = policy.see_in_force()
        say(f"{policy.first}: {policy.told(policy.first)}; {tuned} connections tuned, their window: {window:.0f}")
        return policy

    def judge(self, policy):
        said = policy.judged(MOST_SECONDS if self.wanted.harmless else MOST_SECONDS - time.monotonic() + BEGAN)
        if self.wanted.harmless == ("takes it back" in said):
            raise RuntimeError(f"the {policy.kind} policy: {said}")
        say("transom-fleet policy step --every 5s")
        print(said, flush=True)
        if not self.wanted.harmless:
            window = policy.see_taken_back()
            say(f"{policy.first}: {policy.told(policy.first)}; `transom tune status`: nothing is tuned, on all hosts; "
                f"window there now: {window:.0f}")

    def serve(self, policy):
        at = f"127.0.0.1:{free_port(9466)}"
        words = [self.fleet, "serve", "--from", BUCKET, "--trust", policy.trusted, "--since", "10m", "--listen", at]
        self.processes.start("serve", words, env=self.environment)
        self.page = f"http://{at}/"
        while "the page is at" not in self.processes.said("serve"):
            self.processes.check()
            time.sleep(0.2)

    def number(self, query):
        query = urllib.parse.urlencode({"query": query})
        answer = json.loads(fetched(f"{self.prometheus}/api/v1/query?{query}"))["data"]["result"]
        return float(answer[0]["value"][1]) if answer else 0.0

    def show_page(self, results):
        page = fetched(self.page)
        (results / "page.html").write_text(page)
        bad = f"{hosts.PREFIXES['lossy']}.0/24"
        policy = "is rolled out" if self.wanted.harmless else "was undone by its gate time"
        for shown in (bad, policy):
            if shown not in page:
                raise RuntimeError(f"the page does not show '{shown}': {results / 'page.html'}")
        say(f"the page names {bad} among the prefixes that lose, and a policy that {policy}: {results / 'page.html'}")
        if self.wanted.prometheus:
            up, ended = self.number("sum(up)"), self.number("sum(transom_tcp_connections_total)")
            say(f"Prometheus: {up:.0f} of {len(self.web)} agents answer, {ended:.0f} connections ended there")


def stay(fleet):
    say("all stays up until Ctrl-C:")
    print(f"  page        {fleet.page}")
    if fleet.wanted.prometheus:
        print(f"  Prometheus  {fleet.prometheus}")
    print(f"  a host      ip netns exec {hosts.namespace('web-1')} ss -ti")
    print("  questions   with these settings, as root:")
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION",
                 "AWS_ALLOW_HTTP", "TRANSOM_DUCKDB", "HOME"):
        print(f"                export {name}={fleet.environment[name]}")
    print(f"                {fleet.fleet} explain --customer {BAD} --from {BUCKET}", flush=True)
    while True:
        fleet.processes.check()
        time.sleep(1)


def interrupted(number, _frame):
    raise KeyboardInterrupt(signal.Signals(number).name)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--keep", action="store_true", help="stay up at the end, until Ctrl-C")
    parser.add_argument("--harmless", action="store_true", help="the control: a policy that changes nothing")
    parser.add_argument(WITHOUT_PROMETHEUS, dest="prometheus", action="store_false")
    return parser.parse_args()


def become_root(wanted):
    if os.geteuid() == 0:
        return
    if not shutil.which("sudo"):
        raise programs.Missing("network namespaces and probes need root, and there is no sudo: run it as root")
    print("demo: network namespaces and probes need root: sudo", flush=True)
    kept = [f"{name}={os.environ[name]}" for name in ("CARGO_TARGET_DIR", "TRANSOM_PROGRAMS") if name in os.environ]
    words = [] if wanted.prometheus else [WITHOUT_PROMETHEUS]
    # With -B no compiled module of root's stays beside the scripts.
    os.execvp("sudo", ["sudo", *kept, sys.executable, "-B", *sys.argv, *words])


def look(wanted):
    """All that is missing is said before anything is made, and before root is asked for."""
    for name in ("transom", "transom-lab", "transom-agent", "transom-fleet"):
        programs.transom(name)
    programs.tool("ip", "iproute2")
    programs.tool("nsenter", "util-linux")
    if wanted.prometheus and not programs.prometheus():
        print("demo: no program prometheus: it goes on without (apt install prometheus; where there is systemd, its "
              "package starts a service, which `systemctl disable --now prometheus` ends)", flush=True)
        wanted.prometheus = False
    programs.python()


def give_back(results):
    """What sudo made is the user's, however the demo ends."""
    owner = os.environ.get("SUDO_UID")
    if owner:
        subprocess.run(["chown", "-R", f"{owner}:{os.environ.get('SUDO_GID', owner)}", results])


def show(wanted, results):
    global BEGAN
    BEGAN = time.monotonic()
    leftovers.clear_away(programs.transom("transom"))
    hosts.remove_links()
    folder = Path(tempfile.mkdtemp(prefix="fleet-demo-"))
    processes = leftovers.Processes(folder)
    try:
        fleet = Fleet(processes, wanted)
        fleet.put_up()
        policy = fleet.roll_out()
        for customer, expected in EXPECTED.items():
            fleet.explain(customer, expected)
        fleet.judge(policy)
        fleet.serve(policy)
        fleet.show_page(results)
        if wanted.keep:
            stay(fleet)
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        processes.end()
        hosts.remove_links()
        leftovers.forget(folder)
        say("all is taken down")


def demo(wanted):
    look(wanted)
    become_root(wanted)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    results = programs.TARGET / "fleet-demo"
    try:
        results.mkdir(parents=True, exist_ok=True)
        show(wanted, results)
    finally:
        give_back(results)


def main():
    try:
        demo(parse())
    except KeyboardInterrupt as signal_name:
        sys.exit(f"demo: {signal_name}")
    except (programs.Missing, RuntimeError, OSError) as error:
        sys.exit(f"demo: {error}")


if __name__ == "__main__":
    main()
