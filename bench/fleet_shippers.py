#!/usr/bin/env python3
"""What the shippers of a fleet ask of an S3 server, through an outage of an hour, and what one shipper
costs its host.

    cargo build --release -p transom-fleet --bins --examples
    bench/fleet_shippers.py [--hosts 10000] [--rows 10] [--in DIR]
    bench/fleet_shippers.py --one [--minutes 15] [--landed 5184]

The first is a simulation of time, not of the shippers: their code runs against a real server
(versitygw), and the clock stands still while anybody works. --one runs `transom-fleet ship` in real
time beside an agent's spool that gets a pair of files in five minutes, as with a million connections a
day, and in which so many pairs lie that landed long ago. docs/fleet-running.md has the results.
"""

import argparse
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
# Each host has its spool's lock and its record open; the rest is for connections.
DESCRIPTORS, OTHERS = 2, 500
# S3 Standard, US East: docs/fleet-running.md says where from.
DOLLARS_A_PUT, DOLLARS_A_GET = 5.00 / 1e6, 0.40 / 1e6


def raise_descriptors(hosts):
    wanted = DESCRIPTORS * hosts + OTHERS
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if wanted > most:
        sys.exit(f"{hosts} hosts need {wanted} descriptors, and this machine gives {most}: ulimit -Hn, or --hosts")
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def crowd(args, folder):
    server = Server(folder)
    raise_descriptors(args.hosts)
    spools = args.spools or os.path.join(folder, "spools")
    os.makedirs(spools)
    words = [CROWD, str(args.hosts), str(args.rows), spools, *server.words()]
    with open(os.path.join(folder, "said"), "wb") as said:
        done = subprocess.run(words, env=os.environ | server.settings(), stdout=subprocess.PIPE, stderr=said)
    if done.returncode:
        with open(os.path.join(folder, "said"), errors="replace") as said:
            sys.exit(f"fleet_of_shippers failed: {said.read()[-2000:]}")
    told = json.loads(done.stdout)
    print(f"{told['hosts']:,} hosts, {told['rows_a_file']} rows a file, {told['real_s']} s of real time\n")
    print("| | seconds | requests | failed | a second | most in one second | MB landed |")
    print("|---|---|---|---|---|---|---|")
    for name in ("before", "outage", "back", "after"):
        part = told[name]
        print(
            f"| {name} | {part['seconds']:,} | {part['asked']:,} | {part['failed']:,} |"
            f" {part['asked'] / part['seconds']:,.1f} | {part['most_in_a_second']:,} at {part['most_at']} s | {part['bytes'] / 1e6:,.1f} |"
        )
    a_day = told["before"]["asked"] / told["before"]["seconds"] * DAY
    print(
        f"\n{told['backlog']:,} files waited at the end of the outage; the last of them landed"
        f" {told['landed_after_s']} s after it. {told['objects']:,} objects are there, each once, as many as were"
        f" finished; of one host in 20 all rows were read, {told['rows_read']:,}, each once.\n"
        f"PUT a day at the rate before: {a_day:,.0f}, {a_day * DOLLARS_A_PUT:,.2f} dollars; the outage cost"
        f" {told['outage']['failed']:,} requests, that nobody answered or charged."
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
        tables = [os.path.join(folder, "data/tables/fleet", table) for table in ("connections", "agent")]
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
    parser.add_argument("--rows", type=int, default=10, help="of connections, in a file [10]")
    parser.add_argument("--one", action="store_true", help="one shipper, in real time")
    parser.add_argument("--minutes", type=int, default=15)
    parser.add_argument("--landed", type=int, default=5184, help="pairs that landed before [5184: 18 days]")
    parser.add_argument("--spools", help="folder for the spools alone, which must not be there yet")
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
