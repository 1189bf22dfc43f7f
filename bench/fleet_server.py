"""A real S3 server (versitygw) over a folder, and what it did: for fleet_hour.py and fleet_shippers.py."""

import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import time

PROGRAM = "versitygw"
KEYS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "of-the-bench"}


class Server:
    """versitygw over a folder; what it sent and was asked is read from the kernel and its log."""

    def __init__(self, folder):
        self.folder = folder
        self.log = os.path.join(folder, "access.log")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        for name in ("data/tables", "iam", "sidecar"):
            os.makedirs(os.path.join(folder, name), exist_ok=True)
        self.child = None

    def bucket(self):
        """To this server an object is a file."""
        return os.path.join(self.folder, "data/tables")

    def words(self):
        folder = self.folder
        place = [os.path.join(folder, name) for name in ("sidecar", "data")]
        words = ["--port", f"127.0.0.1:{self.port}", "--quiet", "--access-log", self.log]
        return [PROGRAM, *words, "--iam-dir", os.path.join(folder, "iam"), "posix", "--sidecar", *place]

    def start(self):
        devnull = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.child = subprocess.Popen(self.words(), env=os.environ | self.settings(), **devnull)
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except ConnectionRefusedError:
                if self.child.poll() is not None:
                    sys.exit("versitygw ended")
                time.sleep(0.05)

    def read(self):
        """Bytes written to whatever, requests, bytes of the log, CPU seconds."""
        with open(f"/proc/{self.child.pid}/io") as io:
            written = int(re.search(r"wchar: (\d+)", io.read())[1])
        with open(f"/proc/{self.child.pid}/stat") as stat:
            ticks = stat.read().rsplit(")", 1)[1].split()[11:13]
        logged = os.path.getsize(self.log)
        with open(self.log) as log:
            requests = sum(1 for line in log if " s3_" in line)
        return written - logged, requests, sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.child.kill()
        self.child.wait()

    def settings(self):
        endpoint = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}", "AWS_ALLOW_HTTP": "true"}
        root = dict(zip(("ROOT_ACCESS_KEY", "ROOT_SECRET_KEY"), KEYS.values()))
        return KEYS | root | endpoint | {"AWS_REGION": "us-east-1"}


class Measured:
    """Of a child: seconds, its CPU, and what the server did for it."""

    def __init__(self, server):
        self.server = server

    def __enter__(self):
        self.before = (time.monotonic(), self.cpu(), self.server.read())
        return self

    def __exit__(self, *_):
        begin, cpu, server = self.before
        self.seconds = time.monotonic() - begin
        self.cpu_seconds = self.cpu() - cpu
        now = self.server.read()
        self.bytes, self.requests, self.server_cpu = (b - a for a, b in zip(server, now))

    @staticmethod
    def cpu():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime


def require():
    if shutil.which(PROGRAM) is None:
        module = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
        sys.exit(f"no {PROGRAM} in PATH: go install {module}")
