#!/usr/bin/env python3
"""make matrix: every test of the repository on every kernel of guests.toml, each in a guest.

    scripts/matrix/run.py [GUEST]... [--all | --part | --row PATTERN...] [--test NAME] [--fresh | --again]
                          [--jobs N] [--if-possible]

The rows are those that guests.toml calls `core`: what depends on the kernel most, on every guest in
about an hour. `--all` runs every test program, which takes a night. Rows that are named without a
pattern are all that is built. A cell (a test program on a guest) is kept in target/matrix/GUEST and not
run again until the program or the guest changes: a run that was ended goes on where it was. With `--again`
the tests that failed run once more, one at a time and one guest at a time, and what they do then is in the
cell; a row that did not come to its end is run again as it is. With `--test` only tests with that in
their name run, and their cells are in target/matrix/alone. What differs from expected.toml fails. page.py
makes docs/compatibility.md of the cells. With `--if-possible` a guest for which this machine lacks
something is left out and named, unless TRANSOM_REQUIRE lists `qemu`.
"""

import argparse
import concurrent.futures
import fnmatch
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import cells
import programs

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# A guest is ended when it has been silent for that much longer than a row may take.
SLACK = 120
RUNNING = set()


def arch_of(name):
    return name.split("-")[0]


def obstacle(name, guest):
    """What this machine lacks for a guest, in a sentence."""
    arch = arch_of(name)
    needed = [f"qemu-system-{arch}", "cpio", "depmod", "xz", "mke2fs"]
    is_native = arch == os.uname().machine
    needed += [] if is_native else [f"{arch}-linux-gnu-gcc"]
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    missing = [program for program in needed if not shutil.which(program, path=path)]
    if missing:
        return f"{', '.join(missing)} missing: scripts/prerequisites.sh guest{'' if is_native else ' arm64'}"
    if guest["kernel"].startswith("gki-"):
        return None
    words = [ROOT / "scripts/guest-package.sh", arch, "kernel", guest["kernel"]]
    fetched = subprocess.run(words, capture_output=True, text=True)
    last = (fetched.stderr.strip().splitlines() or ["no message"])[-1]
    return f"no kernel {guest['kernel']}: {last.removeprefix('transom: ')}" if fetched.returncode else None


def possible(chosen):
    """The guests that this machine can boot; the others are named."""
    obstacles = {name: obstacle(name, guest) for name, guest in chosen.items()}
    lacking = {name: why for name, why in obstacles.items() if why}
    for name, why in lacking.items():
        print(f"transom: {name} was not run: {why}", file=sys.stderr)
    if lacking and "qemu" in os.environ.get("TRANSOM_REQUIRE", "").split(","):
        sys.exit("transom: TRANSOM_REQUIRE lists qemu, but not every guest can be booted")
    return {name: guest for name, guest in chosen.items() if name not in lacking}


def words_for(name, guest, machine, rows):
    """The command of scripts/guest.sh that runs these rows."""
    folder = cells.KEPT / name
    folder.mkdir(parents=True, exist_ok=True)
    listed = folder / "rows"
    lines = [(r.name, str(r.seconds), str(r.folder), str(r.program), *r.alone) for r in rows]
    listed.write_text("".join(" ".join(line) + "\n" for line in lines))
    limit = SLACK + sum(r.seconds for r in rows)
    words = [ROOT / "scripts/guest.sh", "--arch", machine.name, "--kernel", guest["kernel"],
             "--limit", str(limit), "--memory", str(guest.get("memory", 6000)),
             "--cpus", str(guest.get("cpus", 2)), "--disk", f"{machine.disk}:{ROOT}",
             "--append", guest.get("append", ""), "--file", f"{listed}:/matrix/rows", "--file", f"{HERE}/inside.sh:/matrix/inside.sh"]
    for option in machine.tools():
        words += option
    variables = [f"{name}={value}" for name, value in guest.get("environment", {}).items()]
    return [*map(str, words), "--", "env", f"TRANSOM_REQUIRE={','.join(guest['require'])}", *variables,
            "sh", "/matrix/inside.sh", "/matrix/rows", machine.built, *guest.get("words", [])]


def boot(name, guest, machine, rows):
    """One boot; how many rows came to an end, whatever that was."""
    words = words_for(name, guest, machine, rows)
    reader = cells.Reader(name, {row.name: row for row in rows}, guest)
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, errors="replace", start_new_session=True)
    RUNNING.add(process)
    for line in process.stdout:
        reader.take(line)
    process.wait()
    RUNNING.remove(process)
    return reader.close()


def due(name, guest, rows, args):
    """The rows of a guest that have no cell yet; or what is to run again."""
    if not args.again:
        return [row for row in rows if args.fresh or not cells.is_there(name, row, guest)]
    rows = [row for row in (cells.once_more(name, row, guest) for row in rows) if row]
    for row in rows:
        print(f"transom: once more: {name} {row.name} {' '.join(row.alone)}".rstrip(), flush=True)
    return rows


def column(name, guest, machine, left):
    """Runs these rows on a guest, which is booted again where it ended before them."""
    while left:
        done = boot(name, guest, machine, left)
        if not done:
            return f"{name}: the guest did not begin: see {cells.KEPT / name / 'guest.txt'}"
        left = [row for row in left if row.name not in done]
    return None


def interrupted(*_):
    for process in RUNNING:
        os.killpg(process.pid, signal.SIGTERM)
    # Cells are whole at any moment, and the threads that wait for guests have nothing to tidy up.
    os._exit(130)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("guest", nargs="*")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--row", action="append", help="only rows that match, as 'cli/tune*'")
    which.add_argument("--part", action="store_true", help="only what CI runs")
    which.add_argument("--all", action="store_true", help="every row, not the core alone")
    parser.add_argument("--test", help="only tests with this in their name")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--fresh", action="store_true", help="run cells again")
    how.add_argument("--again", action="store_true", help="run what failed again, alone")
    parser.add_argument("--if-possible", action="store_true", help="leave out guests for which this machine lacks something")
    parser.add_argument("--jobs", type=int, default=2, help="guests at once")
    return parser.parse_args()


def words_of(guest, args):
    """What each test program is told beside: which of its tests."""
    # CI's own machine has run what it can.
    skipped = guest.get("part_skips", []) if args.part else []
    return [word for test in skipped for word in ("--skip", test)] + ([args.test] if args.test else [])


def main():
    signal.signal(signal.SIGTERM, interrupted)
    signal.signal(signal.SIGINT, interrupted)
    args = arguments()
    core, known = cells.guests()
    for name in args.guest:
        if name not in known:
            sys.exit(f"transom: no guest '{name}' in {HERE / 'guests.toml'}: {', '.join(known)}")
    chosen = {name: guest | {"words": words_of(guest, args)} for name, guest in known.items()
              if (not args.guest or name in args.guest) and (not args.part or "part" in guest)}
    if args.test:
        cells.KEPT = cells.KEPT / "alone"
    if args.if_possible:
        chosen = possible(chosen)
        if not chosen:
            return

    def patterns(name):
        return args.row or (known[name]["part"] if args.part else ["*"] if args.all else known[name].get("rows", core))

    def machine_for(arch):
        wanted = {p for name in chosen if arch_of(name) == arch for p in patterns(name)}
        return programs.Machine(arch, () if any(set(p) & set("*?[") for p in wanted) else sorted(wanted))

    machines = {arch: machine_for(arch) for arch in {arch_of(name) for name in chosen}}

    def rows_of(name):
        return [row for row in machines[arch_of(name)].rows
                if any(fnmatch.fnmatch(row.name, pattern) for pattern in patterns(name))]

    with concurrent.futures.ThreadPoolExecutor(1 if args.again else args.jobs) as pool:
        futures = [pool.submit(column, name, guest, machines[arch_of(name)], due(name, guest, rows_of(name), args))
                   for name, guest in chosen.items()]
        failures = [failure for failure in (future.result() for future in futures) if failure]
    for failure in failures:
        print(f"transom: {failure}", file=sys.stderr)
    surprises = list(cells.surprises(chosen, rows_of))
    print("\n".join(surprises or ["transom: every cell is as expected"]))
    sys.exit(1 if failures or surprises else 0)


if __name__ == "__main__":
    main()
