#!/usr/bin/env python3
"""Builds as cargo test does, and runs the test programs, several at once.

    scripts/cargo-test.py [--runner COMMAND] ARGUMENTS…    those of cargo test, without a test's name

Most tests wait for a network most of their time, so as many programs run at once as there are processors
(TRANSOM_TEST_PROGRAMS), each with as many threads. What one printed comes whole when it has ended. A test
that failed is run once more, alone: tests of the kernel side run beside one another, and on a machine
that others share too. What passes then was disturbed; it is listed at the end, so that nobody overlooks
it. A test that fails alone, too, fails. With --runner, each program is run by that command ("sudo -E").
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
# How libtest ends where it has run all tests and some have failed.
SOME_FAILED = 101
# Named first, so that the end does not wait for one of them.
LONG = ("behaviours", "docs", "tune_suggest", "android", "agent", "whatif", "questions", "top_tmux")
FAILED = re.compile(rb"^test (\S+)(?: - should panic)? \.\.\. FAILED", re.M)
PRINTING = threading.Lock()


class Program:
    """A test program that cargo has built."""

    def __init__(self, artifact):
        self.path = artifact["executable"]
        self.folder = Path(artifact["manifest_path"]).parent
        self.name = artifact["target"]["name"]
        self.source = Path(artifact["target"]["src_path"]).relative_to(self.folder)
        self.environment = {
            "CARGO_MANIFEST_DIR": str(self.folder),
            "CARGO_MANIFEST_PATH": artifact["manifest_path"],
            "CARGO_PKG_NAME": package_name(artifact["package_id"]),
        }

    def run(self, runner, words=()):
        """The tests that failed; None where the program ended before it had run all of them."""
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
            return []
        failed = [name.decode() for name in FAILED.findall(printed)]
        if process.returncode == SOME_FAILED and failed:
            return failed
        print(f"transom: {self.path} ended with {ending(process.returncode)}", flush=True)
        return None


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
    last = len(LONG)
    return sorted(programs, key=lambda each: LONG.index(each.name) if each.name in LONG else last)


def once_more(failed, runner):
    """Whether what failed passes alone; `failed` has the tests of each program."""
    names = [name for _, tests in failed for name in tests]
    still = []
    for program, tests in failed:
        print(f"transom: once more, alone: {' '.join(tests)}", flush=True)
        again = program.run(runner, ["--exact", "--test-threads=1", *tests])
        still += tests if again is None else again
    if still:
        print(f"transom: failed, and failed alone, too: {', '.join(still)}", flush=True)
        return False
    print(f"transom: failed, and passed when run again, alone: {', '.join(names)}", flush=True)
    return True


def main(arguments):
    runner = []
    if arguments[:1] == ["--runner"]:
        runner, arguments = arguments[1].split(), arguments[2:]
    programs = built(arguments)
    if programs is None:
        return 1
    at_once = int(os.environ.get("TRANSOM_TEST_PROGRAMS") or os.cpu_count())
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        results = list(zip(programs, pool.map(lambda program: program.run(runner), programs)))
    failed = [(program, tests) for program, tests in results if tests != []]
    if any(tests is None for _, tests in failed) or sum(len(tests) for _, tests in failed) > MOST:
        print(f"transom: failed: {', '.join(f'{p.name} {t or str()}' for p, t in failed)}", flush=True)
        return 1
    if failed and not once_more(failed, runner):
        return 1
    # Examples of the documentation are no programs that could be run by hand.
    return subprocess.run(["cargo", "test", "--doc", *arguments]).returncode if "--workspace" in arguments else 0


sys.exit(main(sys.argv[1:]))
