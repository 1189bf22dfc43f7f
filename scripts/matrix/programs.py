"""The test programs of the repository for a machine, and the disk that brings them into a guest."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from dataclasses import dataclass
from pathlib import Path

import cells

ROOT = Path(__file__).resolve().parent.parent.parent
# What needs liblinux.a is tested on other kernels by scripts/netstack-guest.sh.
LEFT_OUT = ["transom-netstack", "transom-library-stack", "transom-simulator"]
# Seconds for a row, where the default is too short in emulation.
DEFAULT_SECONDS = 1500
TOOLS = """ip tc ss nstat iperf iperf3 ping tcpdump bpftool timeout setpriv kill mount umount sleep dd
    sysctl bash env cat ls head tail sort grep sed awk ps unshare nsenter ethtool nc mkfifo seq
    getent chmod rm cp mv mkdir ln true false date id stat touch taskset""".split()
PACKAGES = """bash coreutils grep sed mawk iproute2 iperf iperf3 iputils-ping tcpdump bpftool
    util-linux procps ethtool netcat-openbsd mount
    libc-bin netbase python3""".split()


def digest_of(program):
    return hashlib.sha256(program.read_bytes()).hexdigest()


def target_of(kind):
    """The words for cargo that choose a row's test program."""
    if kind == "unit":
        return ["--lib"]
    return ["--bin", kind.removeprefix("unit-")] if kind.startswith("unit-") else ["--test", kind]


@dataclass
class Row:
    name: str
    folder: Path
    program: Path
    seconds: int
    digest: str  # of the program and of those of its package that it may run
    alone: tuple = ()  # the only tests of it to run, one at a time


class Machine:
    """x86_64 or aarch64: builds, strips, and packs a file system with the repository in it."""

    def __init__(self, name, only=()):
        """`only`: rows that are enough, as cli/tiers or monitor/unit; otherwise every test of the workspace."""
        self.name, self.only = name, only
        self.kept = ROOT / "target" / "matrix" / name
        self.disk = self.kept / "disk"
        self.is_native = name == os.uname().machine
        self.built = str(ROOT / "target" / ("debug" if self.is_native else f"{name}-unknown-linux-gnu/debug"))
        self.rows = self._build()
        self._make_disk()

    def _build(self):
        cargo = ["cargo"] if self.is_native else [ROOT / "scripts/cross.sh", self.name]
        words = [*cargo, "test", *self._what(), "--locked", "--no-run", "--message-format=json"]
        built = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True,
                               env={k: v for k, v in os.environ.items() if k != "CARGO_TARGET_DIR"})
        if built.returncode:
            sys.exit("transom: the tests could not be built")
        rows, self.programs, digests = [], [], {}
        for message in map(json.loads, built.stdout.splitlines()):
            if not message.get("executable"):
                continue
            program, target = Path(message["executable"]), message["target"]
            folder = Path(message["manifest_path"]).parent
            if not message["profile"]["test"]:
                self.programs.append(program)
                if "bin" in target["kind"]:
                    digests.setdefault(folder, []).append(digest_of(program))
                continue
            kind = "unit" if "test" not in target["kind"] else target["name"]
            if kind == "unit" and "lib" not in target["kind"]:
                kind = f"unit-{target['name']}"
            rows.append(Row(f"{folder.name}/{kind}", folder, program, DEFAULT_SECONDS, digest_of(program)))
        for row in rows:
            row.digest = " ".join([row.digest, *sorted(digests.get(row.folder, []))])
        return sorted((row for row in rows if not self.only or row.name in self.only), key=lambda row: row.name)

    def _what(self):
        """Packages and tests. Here the whole workspace decides on features, so that nothing is built twice."""
        tests = [word for name in self.only for word in target_of(name.split("/")[1])]
        if self.only and not self.is_native:
            # Those of the core are always among them, so that a row alone is built as beside the others.
            core, _ = cells.guests()
            manifests = {ROOT / "crates" / name.split("/")[0] / "Cargo.toml" for name in {*core, *self.only}}
            names = sorted(tomllib.loads(path.read_text())["package"]["name"] for path in manifests)
            return [*(word for name in names for word in ("-p", name)), *tests]
        left_out = [word for name in LEFT_OUT for word in ("--exclude", name)]
        return ["--workspace", *left_out, *tests]

    def _make_disk(self):
        """The tracked files and what was built, at the same places; made again when a program changed."""
        mark = self.kept / "disk.of"
        now = "".join(sorted(row.digest for row in self.rows))
        now += subprocess.run(["git", "stash", "create"], cwd=ROOT, capture_output=True, text=True).stdout
        now += subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout
        if self.disk.exists() and mark.exists() and mark.read_text() == now:
            return
        tree = self.kept / "tree"
        shutil.rmtree(tree, ignore_errors=True)
        tree.mkdir(parents=True)
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(["cpio", "-0pdm", "--quiet", tree], cwd=ROOT, input=listed, check=True)
        for program in {*self.programs, *(row.program for row in self.rows)}:
            to = tree / program.relative_to(ROOT)
            to.parent.mkdir(parents=True, exist_ok=True)
            to.hardlink_to(self._stripped(program))
        (tree / "target/tmp").mkdir(parents=True, exist_ok=True)
        size = int(subprocess.run(["du", "-sm", tree], capture_output=True, text=True).stdout.split()[0])
        self.disk.unlink(missing_ok=True)
        subprocess.run(["mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-d", tree,
                        self.disk, f"{size * 5 // 4 + 1024}M"], check=True)
        shutil.rmtree(tree)
        mark.write_text(now)

    def _stripped(self, program):
        """Debug information is nine tenths of a program; without it each is kept until it changes."""
        state = program.stat()
        kept = self.kept / "stripped" / program.name / f"{state.st_mtime_ns}-{state.st_size}"
        if not kept.exists():
            shutil.rmtree(kept.parent, ignore_errors=True)
            kept.parent.mkdir(parents=True)
            strip = "strip" if self.is_native else f"{self.name}-linux-gnu-strip"
            subprocess.run([strip, "--strip-debug", "-o", kept, program], check=True)
        return kept

    def tools(self):
        """Options of guest.sh for the programs that tests call."""
        if not self.is_native:
            return [["--package", package] for package in PACKAGES]
        python = sysconfig.get_path("stdlib", vars={"base": "/usr", "installed_base": "/usr"})
        there = [tool for tool in TOOLS if shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin:/sbin")]
        names = ["/etc/services", "/etc/protocols", "/etc/nsswitch.conf"]
        return [["--file", path] for path in [*there, *names, "/usr/bin/python3", python]]
