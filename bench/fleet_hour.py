#!/usr/bin/env python3
"""What a question over one hour of a fleet costs: seconds, CPU, requests, and bytes that are read.

    bench/fleet_hour.py [--hosts N] [--times N…] [--whole N…] [--connections N] [--repeats N]
                        [--in DIR] [--landed] [--by-time] [--clickhouse]

Generates the landed objects of an hour of N hosts with the agent's own writer, merges them with
packaging/fleet/compact.py, and asks the ready questions of them, all over a real S3 server
(versitygw, in PATH) that is told to serve a folder. `--times T…` has the server show each merged
object under T names, one after another, so that engines read an hour of N × T hosts which takes the
disk of N. `--landed` asks the objects that are not merged, too; `--by-time` merged
ones whose rows are in the order of time, as hosts leave them. The customer's question is asked
`--repeats` times, and what reads all rows once, where a size is among those of `--whole`.

Needs `make fleet`, `cargo build --release -p transom-fleet --example fleet_hour`, and a Python with
pyarrow, boto3, duckdb-cli, duckdb-extension-httpfs and, for --clickhouse, chdb. Takes 4.7 GB of disk
for each 1,000 hosts, and removes it at the end. docs/fleet-running.md has what came out."""

import argparse
import functools
import glob
import json
import os
import platform
import statistics
import subprocess
import sys
import sysconfig
import tempfile

import fleet_server
from fleet_server import KEYS, Measured, Server

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..")
TARGET = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
FLEET = os.path.join(TARGET, "release", "transom-fleet")
GENERATOR = os.path.join(TARGET, "release", "examples", "fleet_hour")
HOUR = "date=2026-11-23/hour=12"
TIME = ["--since", "2026-11-23T12:00", "--until", "2026-11-23T13:00"]
LATER = "2026-11-24T14:30"
# Runs the statement in a file, and prints how many rows it answers with.
CLICKHOUSE = """
import chdb.session, json, sys
answer = chdb.session.Session().query(open(sys.argv[1]).read(), "JSONCompact")
print(len(json.loads(answer.bytes())["data"]))
"""


def environment(folder, server):
    """With DuckDB's extension where `INSTALL httpfs` would put it."""
    home = os.path.join(folder, "home")
    packages = sysconfig.get_paths()["purelib"]
    for file in glob.glob(packages + "/duckdb_extension_httpfs/extensions/*/*.duckdb_extension"):
        kind = {"x86_64": "linux_amd64", "aarch64": "linux_arm64"}[platform.machine()]
        to = os.path.join(home, ".duckdb/extensions", os.path.basename(os.path.dirname(file)), kind)
        os.makedirs(to, exist_ok=True)
        os.symlink(file, os.path.join(to, "httpfs.duckdb_extension"))
    duckdb = os.path.join(sysconfig.get_paths()["scripts"], "duckdb")
    return os.environ | server.settings() | {"HOME": home, "TRANSOM_DUCKDB": duckdb}


def output(words, env):
    return subprocess.run(words, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout


def size_of(folder):
    files = [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names]
    return len(files), sum(map(os.path.getsize, files))


def show_more_often(folder, times):
    """As so many names each; the ones that are there stay."""
    names = [name for name in sorted(os.listdir(folder)) if "-" not in name]
    for n in range(1, times):
        for name in names:
            to = os.path.join(folder, f"{n:03}-{name}")
            if not os.path.exists(to):
                os.link(os.path.join(folder, name), to)


def duckdb(env, statement):
    """Runs a statement as `transom-fleet ask` does, for those that it does not print."""
    secret = (
        f"CREATE SECRET (TYPE s3, KEY_ID '{KEYS['AWS_ACCESS_KEY_ID']}',"
        f" SECRET '{KEYS['AWS_SECRET_ACCESS_KEY']}', REGION 'us-east-1', USE_SSL false,"
        f" ENDPOINT '{env['AWS_ENDPOINT_URL'].removeprefix('http://')}', URL_STYLE 'path');"
    )
    session = f".output /dev/null\n{secret}\n.output\n{statement};\n"
    words = [env["TRANSOM_DUCKDB"], "-json", "-bail", "-init", "/dev/null", ":memory:"]
    answer = subprocess.run(words, input=session, env=env, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(answer.stdout or "[]")


def row(name, runs, rows):
    seconds = sorted(run.seconds for run in runs)
    last = runs[-1]
    print(
        f"| {name} | {statistics.median(seconds):.2f} ({seconds[0]:.2f} to {seconds[-1]:.2f}) |"
        f" {statistics.median(run.cpu_seconds for run in runs):.2f} |"
        f" {statistics.median(run.server_cpu for run in runs):.2f} |"
        f" {last.requests:,} | {last.bytes / 1e6:,.1f} | {rows:,} |",
        flush=True,
    )


class Bench:
    def __init__(self, args, folder, server):
        self.args, self.server, self.env = args, server, environment(folder, server)

    def repeated(self, name, run, repeats=1):
        runs = []
        for _ in range(repeats):
            with Measured(self.server) as measured:
                answer = run()
            runs.append(measured)
        row(name, runs, len(answer))
        return answer

    def ask(self, place, question, *given):
        words = [FLEET, "ask", question, *given, *TIME, "--from", f"s3://tables/{place}"]
        return lambda: json.loads(output([*words, "--json"], self.env))

    def printed(self, engine, place, question, *given):
        words = [FLEET, "ask", question, *given, *TIME, "--from", f"s3://tables/{place}"]
        return output([*words, "--print", engine], self.env)

    def clickhouse(self, folder, text):
        """The statement with this server's address and keys."""
        text = text.replace("s3('s3://", f"s3('http://127.0.0.1:{self.server.port}/")
        text = text.replace("'Parquet'", "'{}', '{}', 'Parquet'".format(*KEYS.values()))
        file = os.path.join(folder, "statement.sql")
        with open(file, "w") as out:
            out.write(text)
        number = output([sys.executable, "-c", CLICKHOUSE, file], self.env)
        return range(int(number))

    def merge(self, place, settings="pass"):
        """MiB of memory that it needed."""
        program = f"import compact; {settings}; compact.main()"
        words = ["--from", "s3://tables/fleet", "--to", f"s3://tables/{place}", "--now", LATER]
        env = self.env | {"PYTHONPATH": os.path.join(ROOT, "packaging/fleet")}
        words = [sys.executable, "-B", "-c", program, *words]
        job = subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(job.pid, 0)
        if status:
            sys.exit("compact.py failed")
        return usage.ru_maxrss / 1024

    def questions(self, folder, place, told, whole=True):
        customer = f"customer={told['customer']}"
        slow = ("slow_connections", customer)
        ask = self.ask(place, *slow)
        found = self.repeated("`slow_connections` of a customer", ask, self.args.repeats)
        check("the customer's", found[0]["customers_connections"], told, "customers_connections")
        if not whole:
            return
        statement = self.printed("duckdb", place, *slow)
        # The same without what row groups say of themselves: a computed column has no statistics.
        unpruned = statement.replace("remote_prefix = '", "concat(remote_prefix, '') = '")
        assert unpruned != statement
        self.repeated("the same, nothing pruned", lambda: duckdb(self.env, unpruned))
        found = self.repeated("`verdict_shares`", self.ask(place, "verdict_shares"))
        check("ended", sum(row["ended"] for row in found), told, "ended")
        self.repeated("`over_time`", self.ask(place, "over_time"))
        found = self.repeated("`losing_prefixes`", self.ask(place, "losing_prefixes"))
        assert told["losing"] in [row["prefix"] for row in found], found
        if self.args.clickhouse:
            for question in (slow, ("verdict_shares",)):
                text = self.printed("clickhouse", place, *question)
                ask = functools.partial(self.clickhouse, folder, text)
                self.repeated(f"ClickHouse: `{question[0]}`", ask)


    def by_time(self, data, told, times):
        """The customer's question where nothing lies together, in groups that suit whole reads."""
        self.merge("by-time", "compact.SORTED_BY = None; compact.ROWS_OF_A_GROUP = 500_000")
        show_more_often(os.path.join(data, "by-time/connections", HOUR), times)
        heading(f"Merged in the order of time, {told['hosts'] * times:,} hosts")
        customer = f"customer={told['customer']}"
        self.repeated("`slow_connections`", self.ask("by-time", "slow_connections", customer))


def check(name, found, told, key):
    if found != told[key]:
        sys.exit(f"{name}: {found}, and {told[key]} were made")


def heading(text):
    print(f"\n{text}\n")
    print("| question | s (least to most) | CPU s | server's CPU s | requests | MB read | rows |")
    print("|---|---|---|---|---|---|---|", flush=True)


def run(args, folder):
    data = os.path.join(folder, "data/tables")
    words = [GENERATOR, os.path.join(data, "fleet"), str(args.hosts), str(args.connections)]
    told = json.loads(output(words, os.environ))
    told["ended"] = sum(told["verdicts"].values())
    print(
        f"{told['hosts']:,} hosts, {told['rows']:,} rows, {told['objects']:,} landed objects,"
        f" {told['bytes'] / told['ended']:.1f} bytes for a connection that ended",
        flush=True,
    )
    server = Server(folder)
    server.start()
    try:
        bench = Bench(args, folder, server)
        if args.landed:
            heading("Landed objects")
            bench.questions(folder, "fleet", told)
        with Measured(server) as merging:
            peak = bench.merge("merged")
        merged = os.path.join(data, "merged")
        number, size = size_of(merged)
        print(
            f"\nMerged into {number} objects of {size / 1e6:,.0f} MB, {size / told['bytes']:.2f} of"
            f" what landed, in {merging.seconds:.0f} s ({merging.cpu_seconds:.0f} s of CPU),"
            f" {peak:,.0f} MiB of memory at most"
        )
        for times in args.times:
            show_more_often(os.path.join(merged, "connections", HOUR), times)
            shown = ("ended", "rows", "hosts", "customers_connections")
            more = told | {key: told[key] * times for key in shown}
            number, size = size_of(merged)
            heading(
                f"Merged, {more['hosts']:,} hosts: {more['rows']:,} rows in {number} objects of"
                f" {size / 1e9:.1f} GB"
            )
            bench.questions(folder, "merged", more, times in args.whole)
        if args.by_time:
            bench.by_time(data, told, max(args.whole))
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=250)
    parser.add_argument("--times", type=int, nargs="+", default=[1], help="names of an object [1]")
    parser.add_argument("--whole", type=int, nargs="+", default=[1], help="of --times [1]")
    parser.add_argument("--connections", type=int, default=41_667, help="of a host [41667]")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--in", dest="place", help="folder for the objects [the system's]")
    parser.add_argument("--landed", action="store_true")
    parser.add_argument("--by-time", action="store_true")
    parser.add_argument("--clickhouse", action="store_true")
    args = parser.parse_args()
    fleet_server.require()
    place = args.place and os.path.abspath(args.place)
    with tempfile.TemporaryDirectory(dir=place) as folder:
        run(args, folder)


if __name__ == "__main__":
    main()
