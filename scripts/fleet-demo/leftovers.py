"""What a demo runs, noted so that the next one can take away what a killed one left."""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

NOTE = Path("/run/transom/fleet-demo.json")
PR_SET_PDEATHSIG = 1
PATIENCE = 20
libc = ctypes.CDLL(None)


def started(pid):
    """When a process began, in clock ticks after boot: a later one of its number began later."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The program's name, in brackets, may itself hold blanks and brackets.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])


def is_alive(process):
    return started(process["pid"]) == process["started"]


def ends_with_us():
    # In the child, before it becomes the program: a demo that is killed takes all of them along.
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


class Processes:
    """All that the demo started, in the order in which it began."""

    def __init__(self, folder):
        self.folder = folder
        self.running = []
        self.write()

    def write(self):
        own = {"pid": os.getpid(), "started": started(os.getpid())}
        each = [{"pid": child.pid, "started": started(child.pid)} for _, child in self.running]
        NOTE.parent.mkdir(parents=True, exist_ok=True)
        fresh = NOTE.with_suffix(".new")
        fresh.write_text(json.dumps({"owner": own, "folder": str(self.folder), "processes": each}))
        fresh.rename(NOTE)

    def start(self, name, words, pipe=False, **more):
        log = open(self.folder / f"{name}.log", "wb")
        out = subprocess.PIPE if pipe else log
        child = subprocess.Popen(
            [str(word) for word in words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=log,
            # Ctrl-C is for us, and the order in which things end is ours.
            start_new_session=True,
            preexec_fn=ends_with_us,
            **more,
        )
        self.running.append((name, child))
        self.write()
        return child

    def said(self, name):
        text = (self.folder / f"{name}.log").read_text(errors="replace").strip()
        return "; ".join(text.splitlines()[-3:]) or "nothing"

    def check(self):
        for name, child in self.running:
            if child.poll() is not None:
                raise RuntimeError(f"{name} ended by itself; it said: {self.said(name)}")

    def end(self):
        """The last begun first, so that nothing misses what it needs."""
        for _, child in reversed(self.running):
            child.poll() is None and child.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE
        for _, child in reversed(self.running):
            try:
                child.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self.running = []


def clear_away(lab):
    """What a demo left that was killed. Refuses while one is up."""
    if NOTE.exists():
        note = json.loads(NOTE.read_text())
        if is_alive(note["owner"]):
            raise RuntimeError(f"a demo is up already (process {note['owner']['pid']}): end it first")
        for number in (signal.SIGTERM, signal.SIGKILL):
            left = [process for process in note["processes"] if is_alive(process)]
            for process in left:
                os.kill(process["pid"], number)
            deadline = time.monotonic() + PATIENCE / 2
            while any(map(is_alive, left)) and time.monotonic() < deadline:
                time.sleep(0.1)
    # The lab keeps a note of its own, of namespaces and what runs in them.
    subprocess.run([lab, "lab", "clean"], capture_output=True)
    if NOTE.exists():
        shutil.rmtree(json.loads(NOTE.read_text())["folder"], ignore_errors=True)
        NOTE.unlink()


def forget(folder):
    shutil.rmtree(folder, ignore_errors=True)
    NOTE.unlink(missing_ok=True)
