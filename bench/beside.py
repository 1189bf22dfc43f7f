#!/usr/bin/env python3
"""make bench: the agent beside tcplife (libbpf-tools) and ss in a loop, on the same load.

One nginx connection per request, each tool in turn, several rounds. Printed per connection, of
which each request is two here: CPU time of the tool, CPU time of its BPF programs, and what part
of the connections it reported. Needs root, nginx, wrk, ss, and tcplife with tracefs mounted.
"""

import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from agent import AGENT, NGINX, PORT, SECONDS, wrk

ROUNDS = int(os.environ.get("ROUNDS", 5))
STATS = Path("/proc/sys/kernel/bpf_stats_enabled")


def used(pid):
    """CPU seconds of a process, its threads and its ended children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def in_programs():
    text = subprocess.run(["bpftool", "-j", "prog", "show"], capture_output=True, text=True).stdout
    return sum(p.get("run_time_ns", 0) for p in json.loads(text or "[]")) / 1e9


def tools(folder):
    """What is started, and how many connections of the port it reported in the end."""
    spool, lines = Path(folder) / "spool", Path(folder) / "lines"

    def rows():
        script = (
            "import pyarrow.parquet as p,glob,sys;"
            "print(sum(p.read_table(f,columns=['service'])['service'].to_pylist().count(int(sys.argv[2]))"
            " for f in glob.glob(sys.argv[1]+'/connections*')))"
        )
        python = os.environ.get("PYTHON_WITH_PYARROW", sys.executable)
        return int(subprocess.run([python, "-c", script, spool, str(PORT)], capture_output=True, text=True).stdout or 0)

    def lines_of_port():
        text = lines.read_text()
        return sum(str(PORT) in line for line in text.splitlines())

    def sockets_seen():
        peers = set()
        for line in lines.read_text().splitlines():
            words = line.split()
            if len(words) > 4 and words[0] == "ESTAB" and f":{PORT}" in line:
                peers.add((words[3], words[4]))
        return len(peers)

    loop = f"while :; do ss -tinH >> {lines}; sleep 1; done"
    found = {"transom-agent": (["nice", "-n", "0", AGENT, "--spool", spool, "--cpu", "1"], rows)}
    if shutil.which("tcplife"):
        found["tcplife"] = (["sh", "-c", f"exec tcplife > {lines}"], lines_of_port)
    found["ss each second"] = (["sh", "-c", loop], sockets_seen)
    return found


def ended(tool):
    """CPU seconds in all, what it did at its end included, and the most memory, MiB."""
    # Not ru_maxrss, which has the memory of whoever started it.
    status = Path(f"/proc/{tool.pid}/status").read_text()
    resident = int(re.search(r"VmHWM:\s+(\d+)", status).group(1)) / 1024
    os.killpg(tool.pid, signal.SIGINT)
    for _ in range(100):
        pid, _, usage = os.wait4(tool.pid, os.WNOHANG)
        if pid:
            break
        time.sleep(0.1)
    else:
        os.killpg(tool.pid, signal.SIGKILL)
        _, _, usage = os.wait4(tool.pid, 0)
    tool.returncode = 0
    return usage.ru_utime + usage.ru_stime, resident


def once(words, reported):
    tool = subprocess.Popen(words, stderr=subprocess.DEVNULL, start_new_session=True)
    time.sleep(2)
    own, programs = used(tool.pid), in_programs()
    rate, _, requests = wrk(True)
    time.sleep(1.5)
    programs = in_programs() - programs
    total, resident = ended(tool)
    ends = 2 * requests
    return rate, (total - own) / ends * 1e6, programs / ends * 1e6, reported() / ends, resident


def main():
    if os.geteuid() != 0:
        sys.exit("BPF programs need root: sudo python3 bench/beside.py")
    before = STATS.read_text()
    STATS.write_text("1")
    results = {}
    try:
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "nginx.conf"
            config.write_text(NGINX.format(folder=folder, port=PORT))
            nginx = subprocess.Popen(["nginx", "-c", config, "-p", folder], stderr=subprocess.DEVNULL)
            try:
                time.sleep(0.5)
                for _ in range(ROUNDS):
                    without, *_ = wrk(True)
                    for name in tools(folder):
                        with tempfile.TemporaryDirectory() as place:
                            rate, *rest = once(*tools(place)[name])
                        results.setdefault(name, []).append((rate / without, *rest))
            finally:
                nginx.terminate()
                nginx.wait()
    finally:
        STATS.write_text(before)
    print("| tool | rate, with ÷ without | CPU, µs a connection | its programs, µs a connection | connections reported | memory, MiB |")
    print("|---|---|---|---|---|---|")
    for name, rounds in results.items():
        rate, own, programs, reported, resident = (statistics.median(column) for column in zip(*rounds))
        print(f"| {name} | {rate:.2f} | {own:.2f} | {programs:.2f} | {reported:.1%} | {resident:.0f} |")


if __name__ == "__main__":
    main()
