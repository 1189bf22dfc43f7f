"""A web server under load, for the benchmarks: nginx with one worker, and wrk.

Both need only to be installed; the server listens on loopback, with its files
in a directory of the caller.
"""

import re
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

PORT = 18080
PROGRAMS = ("nginx", "wrk")

NGINX = """
daemon off; worker_processes 1; error_log {folder}/error.log; pid {folder}/pid;
events {{ worker_connections 4096; }}
http {{ access_log off; keepalive_requests 100000000;
  server {{ listen 127.0.0.1:{port} backlog=4096; return 200 "ok\\n"; location /file {{ root {folder}; }} }} }}
"""


@contextmanager
def server(folder):
    config = Path(folder) / "nginx.conf"
    config.write_text(NGINX.format(folder=folder, port=PORT))
    nginx = subprocess.Popen(["nginx", "-c", config, "-p", folder], stderr=subprocess.DEVNULL)
    try:
        time.sleep(0.5)
        yield
    finally:
        nginx.terminate()
        nginx.wait()


def wrk(close, seconds):
    """Requests a second, p99 in ms, and all requests; with `close` each on its own connection."""
    words = ["wrk", "-t1", "-c32", f"-d{seconds}", "--latency", f"http://127.0.0.1:{PORT}/"]
    if close:
        words[1:1] = ["-H", "Connection: close"]
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    value, unit = re.search(r"99%\s+([\d.]+)(us|ms|s)", text).groups()
    p99 = float(value) * {"us": 1e-3, "ms": 1, "s": 1e3}[unit]
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", text).group(1))
    return rate, p99, int(re.search(r"(\d+) requests in", text).group(1))
