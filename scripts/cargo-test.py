#!/usr/bin/env python3
"""Runs cargo test, then each test that failed once more, alone.

    scripts/cargo-test.py ARGUMENTS…     those of cargo test, without a test's name

Tests of the kernel side run beside one another, and on a machine that others share too. What fails
there and passes alone was disturbed; it is listed at the end, so that nobody overlooks it. A test
that fails alone, too, fails.
"""
import re
import subprocess
import sys

# More than that is no disturbance.
MOST = 12
RUNNING = re.compile(r"^ +(Running|Doc-tests) ")
FAILED = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. FAILED")
RERUN = re.compile(r"error: test failed, to rerun pass `(?:-p \S+ )?(--.*)`")


def run(arguments):
    """The exit code, and the tests that failed by the words that choose their target."""
    command = ["cargo", "test", "--no-fail-fast", *arguments]
    cargo = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    names, failed = [], {}
    for line in cargo.stdout:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
        text = line.decode(errors="replace")
        if RUNNING.match(text):
            names = []
        elif found := FAILED.match(text):
            names.append(found[1])
        elif found := RERUN.search(text):
            failed.setdefault(found[1], []).extend(names)
    return cargo.wait(), failed


def main(arguments):
    code, failed = run(arguments)
    if code == 0 or not failed:
        return code
    # A target that died leaves no names, and tests in documentation cannot be chosen by theirs.
    if not all(names and words != "--doc" for words, names in failed.items()):
        return code
    if sum(map(len, failed.values())) > MOST:
        return code
    still = False
    for words, names in failed.items():
        print(f"transom: once more, alone: {' '.join(names)}", flush=True)
        again = ["--", "--exact", "--test-threads=1", *names]
        still |= run([*arguments, *words.split(), *again])[0] != 0
    all_names = [name for names in failed.values() for name in names]
    if still:
        print(f"transom: of {', '.join(all_names)} some fail alone, too")
        return code
    print(f"transom: failed, and passed when run again, alone: {', '.join(all_names)}")
    return 0


sys.exit(main(sys.argv[1:]))
