"""A program that watches the machine while a benchmark runs: what it used, its end included."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILT = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
AGENT = BUILT / "transom-agent"
STATS = Path("/proc/sys/kernel/bpf_stats_enabled")


class Watcher:
    """Runs in a process group of its own; with `ready` it has said so when this returns."""

    def __init__(self, words, ready=None):
        to = subprocess.PIPE if ready else subprocess.DEVNULL
        self.process = subprocess.Popen(words, stderr=to, text=True, start_new_session=True)
        if ready and not any(line.startswith(ready) for line in self.process.stderr):
            sys.exit(f"{words[0]} did not start")

    def cpu(self):
        """CPU seconds until now, of its threads and ended children, too."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def resident(self):
        """The most memory until now, MiB."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", text).group(1)) / 1024

    def stop(self):
        """CPU seconds in all: what it does at its end, too."""
        os.killpg(self.process.pid, signal.SIGINT)
        for _ in range(300):
            pid, _, usage = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                break
            time.sleep(0.1)
        else:
            os.killpg(self.process.pid, signal.SIGKILL)
            _, _, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = 0
        return usage.ru_utime + usage.ru_stime


def agent(spool, *words, cpu=1):
    """With a budget that it does not reach, unless another is given."""
    return Watcher([AGENT, "--spool", spool, "--cpu", str(cpu), *words], ready="rows of")


@contextmanager
def counted():
    """The kernel counts runs and time of BPF programs meanwhile."""
    before = STATS.read_text()
    STATS.write_text("1")
    try:
        yield
    finally:
        STATS.write_text(before)


def programs():
    """Seconds that the machine's BPF programs ran, and how often, where the kernel counts it."""
    text = subprocess.run(["bpftool", "-j", "prog", "show"], capture_output=True, text=True).stdout
    each = json.loads(text or "[]")
    return sum(p.get("run_time_ns", 0) for p in each) / 1e9, sum(p.get("run_cnt", 0) for p in each)


def in_parquet(script, *words):
    """What a few lines of Python with PyArrow print of Parquet files; "" without PyArrow."""
    python = os.environ.get("PYTHON_WITH_PYARROW", sys.executable)
    script = "import glob, sys, pyarrow.parquet as p\n" + script
    return subprocess.run([python, "-c", script, *map(str, words)], capture_output=True, text=True).stdout.strip()
