#!/usr/bin/env python3
"""What the shippers of a fleet ask of an S3 server, through an outage of an hour, and what one shipper
costs its host.

    cargo build --release -p transom-fleet --bins --examples
    bench/fleet_shippers.py [--hosts 10000] [--processes 2] [--rows 10] [--in DIR]
    bench/fleet_shippers.py --one [--minutes 15] [--landed 5184]

The first is a simulation of time, not of the shippers: their code runs against a real server
(versitygw), and the clock stands still while anybody works. Hosts meet in the server only, so several
processes may share them: what one may have open ends at some 9,500. --one runs `transom-fleet ship` in real
time beside an agent's spool that gets a pair of files in five minutes, as with a million connections a
day, and in which so many pairs lie that landed long ago. docs/fleet-running.md has the results.
"""

import argparse
import collections
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import fleet_server
from fleet_server import Server

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAMS = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "release")
CROWD, SPOOL = (os.path.join(PROGRAMS, "examples", name) for name in ("fleet_of_shippers", "spool_of_a_host"))
FLEET = os.path.join(PROGRAMS, "transom-fleet")
DAY, PERIOD = 86_400, 300
# Each host has its spool's lock and its record open; the rest of a process is for connections.
DESCRIPTORS, OTHERS = 2, 500
# S3 Standard, US East: docs/fleet-running.md says where from.
DOLLARS_A_PUT = 5.00 / 1e6


def raise_descriptors(hosts):
    """For a process with so many hosts."""
    wanted = DESCRIPTORS * hosts + OTHERS
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if wanted > most:
        sys.exit(f"{hosts} hosts need {wanted} descriptors, and this machine gives {most}: --processes")
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


class Part:
    """A process with some of the hosts."""

    def __init__(self, first, hosts, rows, folder, settings):
        spools, self.said = (os.path.join(folder, f"{what}-{first:05}") for what in ("spools", "said"))
        os.mkdir(spools)
        words = [CROWD, str(first), str(hosts), str(rows), spools]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with open(self.said, "wb") as said:
            self.child = subprocess.Popen(words, env=os.environ | settings, stderr=said, **pipes)

    def line(self):
        if not (line := self.child.stdout.readline()):
            # Thousands of hosts have said what they ship; the error is the last thing said.
            with open(self.said, errors="replace") as said:
                sys.exit(f"fleet_of_shippers failed: {said.read().rpartition('Error: ')[2][:2000]}")
        return line.strip()

    def goes_on(self):
        self.child.stdin.write("\n")
        self.child.stdin.flush()


def told_of(parts, server):
    """What each says in the end. The server goes and comes where all say that it does; then they read it one by one."""
    for word, change in (("down", server.stop), ("up", server.start)):
        for part in parts:
            assert part.line() == word
        change()
        for part in parts:
            part.goes_on()
    for part in parts:
        assert part.line() == "read"
    told = []
    for part in parts:
        part.goes_on()
        told.append(json.loads(part.line()))
    return told


def together(told, name):
    """A part of the time, of all processes."""
    each = collections.Counter()
    for one in told:
        each.update({int(second): asked for second, asked in one[name]["each_second"].items()})
    most_at, most = max(each.items(), key=lambda it: (it[1], -it[0]))
    sums = {key: sum(one[name][key] for one in told) for key in ("asked", "failed", "bytes")}
    return sums | {"seconds": told[0][name]["seconds"], "most": most, "most_at": most_at}


def crowd(args, folder):
    server = Server(folder)
    shares = [args.hosts * n // args.processes for n in range(args.processes + 1)]
    raise_descriptors(max(end - first for first, end in zip(shares, shares[1:])))
    server.start()
    parts = []
    try:
        for first, end in zip(shares, shares[1:]):
            place = args.spools or folder
            parts.append(Part(first, end - first, args.rows, place, server.settings()))
        told = told_of(parts, server)
    finally:
        server.stop()
        for part in parts:
            part.child.kill()
            part.child.wait()
    print(
        f"{args.hosts:,} hosts in {args.processes} processes, {args.rows} rows a file,"
        f" {max(one['real_s'] for one in told)} s of real time\n"
    )
    print("| | seconds | requests | failed | a second | most in one second | MB landed |")
    print("|---|---|---|---|---|---|---|")
    times = {name: together(told, name) for name in ("before", "outage", "back", "after")}
    for name, part in times.items():
        print(
            f"| {name} | {part['seconds']:,} | {part['asked']:,} | {part['failed']:,} |"
            f" {part['asked'] / part['seconds']:,.1f} | {part['most']:,} at {part['most_at']} s | {part['bytes'] / 1e6:,.1f} |"
        )
    a_day = times["before"]["asked"] / times["before"]["seconds"] * DAY
    keys = ("backlog", "objects", "described", "rows_read")
    backlog, objects, described, rows = (sum(one[key] for one in told) for key in keys)
    there = sum(name.endswith(".parquet") for _, _, names in os.walk(server.bucket()) for name in names)
    if there != objects + described:
        sys.exit(f"{there} objects are there, not {objects} and {described} of what the hosts are")
    print(
        f"\n{backlog:,} files waited at the end of the outage; the last of them landed"
        f" {max(one['landed_after_s'] for one in told)} s after it. {objects:,} objects are there, each once, as many as were"
        f" finished, and {described:,} that say what a host is; of one host in 20 all rows were read, {rows:,}, each once.\n"
        f"PUT a day at the rate before: {a_day:,.0f}, {a_day * DOLLARS_A_PUT:,.2f} dollars; the outage cost"
        f" {times['outage']['failed']:,} requests, that nobody answered or charged."
    )


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as stat:
        ticks = stat.read().rsplit(")", 1)[1].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def landed_long_ago(args, spool, state, pairs):
    """Pairs under other numbers, and a record that they landed."""
    with open(os.path.join(state, "shipped"), "w") as record:
        record.write("of web-1 to s3://tables/fleet\n")
        for number in range(args.landed):
            for path in pairs[0]:
                table = os.path.basename(path).split("-")[0]
                name = f"{table}-20260101T000000Z-{100_000 + number:06}.parquet"
                os.link(path, os.path.join(spool, name))
                record.write(f"landed {name}\n")


def one(args, folder):
    made, spool, state = (os.path.join(folder, name) for name in ("made", "spool", "state"))
    for path in (made, spool, state):
        os.mkdir(path)
    subprocess.run([SPOOL, made, str(1 + args.minutes // 60)], check=True)
    numbers = sorted({name.split("-")[2] for name in os.listdir(made)})
    pairs = [
        [os.path.join(made, name) for name in sorted(os.listdir(made), reverse=True) if number in name]
        for number in numbers
    ]
    landed_long_ago(args, spool, state, pairs)
    server = Server(folder)
    server.start()
    try:
        words = [FLEET, "ship", "--spool", spool, "--state", state, "--to", "s3://tables/fleet", "--host", "web-1"]
        devnull = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        shipper = subprocess.Popen(words, env=os.environ | server.settings(), **devnull)
        time.sleep(20)
        before, began = cpu_seconds(shipper.pid), time.monotonic()
        due = pairs[: args.minutes * 60 // PERIOD]
        for number, pair in enumerate(due):
            for path in pair:
                os.link(path, os.path.join(spool, os.path.basename(path)))
            time.sleep(max(0, began + (number + 1) * PERIOD - time.monotonic()))
        seconds, cpu = time.monotonic() - began, cpu_seconds(shipper.pid) - before
        shipper.terminate()
        shipper.wait()
        tables = [os.path.join(server.bucket(), "fleet", table) for table in ("connections", "agent")]
        objects = sum(len(names) for table in tables for _, _, names in os.walk(table))
        if objects != 2 * len(due):
            sys.exit(f"{objects} objects landed, not {2 * len(due)}")
        print(
            f"{len(due)} pairs of files landed in {seconds:.0f} s, with {2 * args.landed:,} files in the spool"
            f" that landed before: {cpu:.2f} s of CPU, {cpu / seconds:.3%} of a core"
        )
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--processes", type=int, default=2, help="that share the hosts [2]")
    parser.add_argument("--rows", type=int, default=10, help="of connections, in a file [10]")
    parser.add_argument("--one", action="store_true", help="one shipper, in real time")
    parser.add_argument("--minutes", type=int, default=15)
    parser.add_argument("--landed", type=int, default=5184, help="pairs that landed before [5184: 18 days]")
    parser.add_argument("--spools", help="folder for the spools alone, which is there [that of --in]")
    parser.add_argument("--in", dest="place", help="folder for all files [the system's]")
    args = parser.parse_args()
    fleet_server.require()
    folder = tempfile.mkdtemp(dir=args.place and os.path.abspath(args.place))
    try:
        (one if args.one else crowd)(args, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
