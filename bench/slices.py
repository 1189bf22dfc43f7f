"""One load that runs on, and short slices of it with and without something that watches.

A machine that others share is now slow and now fast, for seconds. So each slice is compared with the
one before and the one after, which nothing watches; and a slice counts by the median of its moments,
since what stops the machine for a moment is of neither side.
"""

import signal
import statistics
import subprocess
import time
from contextlib import contextmanager

import web

SLICE = 0.7
WEB_SLICE = 2
MOMENT = 0.035
# What starts is let come to rest.
SETTLE = 0.5


class Load:
    """The connections of the example program `load`."""

    def __init__(self, program, mode, connections):
        self.process = subprocess.Popen([program, mode, "-", str(connections)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        time.sleep(SETTLE)

    def moved(self):
        """Bytes so far, and when that was."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline()), time.monotonic()

    def slice(self):
        """The median of its moments, in bytes a second."""
        marks = [self.moved()]
        while marks[-1][1] - marks[0][1] < SLICE:
            time.sleep(MOMENT)
            marks.append(self.moved())
        return statistics.median((b - a) / (till - since) for (a, since), (b, till) in zip(marks, marks[1:])),

    @contextmanager
    def held(self):
        """What starts or ends meanwhile is not in the way of the load, nor is the load in its."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


class Web:
    """nginx, which runs already, and wrk on 32 connections; with `close`, each request on its own."""

    def __init__(self, close=False):
        self.close = close
        self.slice()

    def slice(self):
        """Requests a second and the 99th percentile of the latency."""
        return web.wrk(self.close, WEB_SLICE)[:2]

    @contextmanager
    def held(self):
        """Between its slices it is at rest."""
        yield

    def stop(self):
        pass


def ratios(load, watchers, rounds):
    """What each slice measures with each of `watchers`, as ratios to both neighbours: by name, a list for each measure.

    A watcher is a function that returns a context, in which it watches.
    """
    alone, beside = [load.slice()], []
    for _ in range(rounds):
        for name, watcher in watchers.items():
            with load.held():
                context = watcher()
                context.__enter__()
            try:
                time.sleep(SETTLE)
                beside.append((name, load.slice()))
            finally:
                with load.held():
                    context.__exit__(None, None, None)
            time.sleep(SETTLE / 2)
            alone.append(load.slice())
    found = {name: [] for name in watchers}
    for (name, with_it), before, after in zip(beside, alone, alone[1:]):
        found[name].append([2 * c / (a + b) for a, c, b in zip(before, with_it, after)])
    return {name: list(zip(*rounds)) for name, rounds in found.items()}


def middle(values):
    """The median, and the quarters that enclose half of the values."""
    low, median, high = statistics.quantiles(values, n=4)
    return f"{median:.3f} ({low:.3f}–{high:.3f})"
