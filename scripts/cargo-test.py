#!/usr/bin/env python3
"""Builds as cargo test does, and runs the test programs, several at once.

    scripts/cargo-test.py [--runner COMMAND] ARGUMENTS…    those of cargo test, without a test's name

Most tests wait for a network most of their time, so one program more runs at once than there are
processors (TRANSOM_TEST_PROGRAMS), each with as many threads as processors; those that do hardly anything
but wait run beside them, one after the other. What one printed comes whole when it has ended. A test that
failed is run again, alone, twice at most: tests of the kernel side run beside one another, and on a machine
that others share too. What passes then was disturbed, or depends on chance; it is listed at the end, so
that nobody overlooks it. A test that fails alone each time fails. With --runner, each program is run by
that command ("sudo -E").
How it ended, and why what failed did, also goes to the file that TRANSOM_FAILED names (scripts/skipped.sh).
"""
import concurrent.futures
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

# More than that is no disturbance.
MOST = 12
# So often a test that failed is run alone before it has failed.
ALONE = 2
# How libtest ends where it has run all tests and some have failed.
SOME_FAILED = 101
# Named first, so that the end does not wait for one of them.
LONG = ("docs", "tune_suggest", "android", "whatif", "questions", "top_tmux")
# They take a sixth of a processor for minutes, so that in a place among the others they would keep it idle.
WAITING = ("agent", "behaviours", "tiers", "tune_scopes", "tune_guard", "peer_cost")
# The list at its end, and how many are in it. The line of each test may be broken by what a child writes.
NAME = re.compile(r"^    (\S+)$", re.M)
COUNT = re.compile(r"^test result: FAILED\. \d+ passed; (\d+) failed", re.M)
PRINTED_BY = re.compile(r"^---- (\S+) stdout ----\n", re.M)
# Lines, of all that failed together: with the names they are to be among the last hundred of a log.
MOST_REASONS = 80
PRINTING = threading.Lock()


class Program:
    """A test program that cargo has built."""

    def __init__(self, artifact):
        self.path = artifact["executable"]
        self.folder = Path(artifact["manifest_path"]).parent
        self.name = artifact["target"]["name"]
        self.waits = self.name in WAITING and "test" in artifact["target"]["kind"]
        self.source = Path(artifact["target"]["src_path"]).relative_to(self.folder)
        self.environment = {
            "CARGO_MANIFEST_DIR": str(self.folder),
            "CARGO_MANIFEST_PATH": artifact["manifest_path"],
            "CARGO_PKG_NAME": package_name(artifact["package_id"]),
        }

    def run(self, runner, words=()):
        """Why each test failed that did, by name; None is the program that ended before it had run all."""
        began = time.monotonic()
        process = subprocess.Popen([*runner, self.path, *words], cwd=self.folder, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   env={**os.environ, **self.environment})
        printed = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        lasted, busy = time.monotonic() - began, used.ru_utime + used.ru_stime
        with PRINTING:
            print(f"     Running {self.folder.name}/{self.source} ({lasted:.0f} s, CPU {busy:.0f} s)", flush=True)
            sys.stdout.buffer.write(printed)
            sys.stdout.buffer.flush()
        if process.returncode == 0:
            return {}
        printed = printed.decode(errors="replace")
        failed = reasons(printed)
        if process.returncode == SOME_FAILED and failed:
            return failed
        ended = f"transom: {self.path} ended with {ending(process.returncode)}"
        print(ended, flush=True)
        return {None: [*printed.splitlines()[-MOST_REASONS // 4:], ended]}


def reasons(printed):
    """What each failed test printed, from its panic on; nothing if the list of them is not whole."""
    before, _, names = printed.rpartition("\nfailures:\n")
    count = COUNT.search(names)
    names = NAME.findall(names)
    if not count or len(names) != int(count[1]):
        return {}
    _, *parts = PRINTED_BY.split(before)
    sections = dict(zip(parts[::2], parts[1::2]))
    return {name: from_panic(sections.get(name, "").splitlines()) for name in names}


def from_panic(lines):
    first = next((n for n, line in enumerate(lines) if " panicked at " in line), 0)
    return [line for line in lines[first:] if line]


def package_name(identity):
    """Of `path+file:///FOLDER/NAME#VERSION`, or `…/FOLDER#NAME@VERSION` where the folder has another name."""
    folder, _, version = identity.partition("#")
    name, at, _ = version.rpartition("@")
    return name if at else folder.rsplit("/", 1)[-1]


def ending(code):
    return code if code >= 0 else signal.Signals(-code).name


def built(arguments):
    """The test programs, or None where the build failed."""
    command = ["cargo", "test", "--no-run", "--message-format=json-render-diagnostics", *arguments]
    cargo = subprocess.run(command, stdout=subprocess.PIPE)
    if cargo.returncode:
        return None
    messages = map(json.loads, cargo.stdout.splitlines())
    tests = [each for each in messages if each.get("executable") and each["profile"]["test"]]
    programs = [Program(each) for each in tests]
    first = (*WAITING, *LONG)
    return sorted(programs, key=lambda each: first.index(each.name) if each.name in first else len(first))


def run_all(programs, runner, at_once):
    """Each program with what failed of it."""
    places, beside = concurrent.futures.ThreadPoolExecutor(at_once), concurrent.futures.ThreadPoolExecutor(1)
    try:
        # One at a time is one at a time.
        ended = [(each, (beside if each.waits and at_once > 1 else places).submit(each.run, runner)) for each in programs]
        return [(program, failed.result()) for program, failed in ended]
    finally:
        for pool in (places, beside):
            pool.shutdown(cancel_futures=True)


def alone(failed, runner):
    """What failed alone, too; `failed` has the tests of each program."""
    still = []
    for program, tests in failed:
        print(f"transom: once more, alone: {' '.join(tests)}", flush=True)
        again = program.run(runner, ["--exact", "--test-threads=1", *tests])
        if again:
            still.append((program, again))
    return still


def names(failed):
    return ", ".join(test or program.name for program, tests in failed for test in tests)


def tell(ending, failed=()):
    """Says how it ended; and to the file, too, after what is the reason."""
    print(f"transom: {ending}", flush=True)
    file = os.environ.get("TRANSOM_FAILED")
    if not file:
        return
    each = [(program, test, lines) for program, tests in failed for test, lines in tests.items()]
    most = max(MOST_REASONS // max(len(each), 1) - 1, 4)
    told = []
    for program, test, lines in each:
        told.append(f"failed: {program.folder.name}/{program.source} {test or ''}")
        told += [f"    {line[:1000]}" for line in lines[:most]]
    with open(file, "a") as account:
        account.writelines(f"{line}\n" for line in [*told[:MOST_REASONS], f"transom: {ending}"])


def main(arguments):
    runner = []
    if arguments[:1] == ["--runner"]:
        runner, arguments = arguments[1].split(), arguments[2:]
    programs = built(arguments)
    if programs is None:
        tell("the tests could not be built")
        return 1
    at_once = int(os.environ.get("TRANSOM_TEST_PROGRAMS") or os.cpu_count() + 1)
    results = run_all(programs, runner, at_once)
    failed = [(program, tests) for program, tests in results if tests]
    if any(None in tests for _, tests in failed) or sum(len(tests) for _, tests in failed) > MOST:
        tell(f"failed: {names(failed)}", failed)
        return 1
    rounds = [failed]
    while rounds[-1] and len(rounds) <= ALONE:
        rounds.append(alone(rounds[-1], runner))
    if rounds[-1]:
        tell(f"failed, and failed alone {ALONE} times: {names(rounds[-1])}", rounds[-1])
        return 1
    if failed:
        tell(f"failed, and passed when run again, alone: {names(failed)}")
    if len(rounds) > 2:
        tell(f"failed alone, too, at first: {names(rounds[1])}", rounds[1])
    # Examples of the documentation are no programs that could be run by hand.
    if "--workspace" not in arguments:
        return 0
    status = subprocess.run(["cargo", "test", "--doc", *arguments]).returncode
    if status:
        tell("the examples of the documentation failed")
    return status


sys.exit(main(sys.argv[1:]))
