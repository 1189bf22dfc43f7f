"""What the demo runs, and what to do where something is missing."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
ADMIN = os.pathsep + "/usr/sbin" + os.pathsep + "/sbin"

DUCKDB = "1.5.5"
# The extension must be of DuckDB's very version.
PACKAGES = [
    f"duckdb-cli=={DUCKDB}",
    f"duckdb-extension-httpfs=={DUCKDB}",
    "moto[server]",
    "boto3",
]
IMPORTS = "duckdb_cli, duckdb_extension_httpfs, moto.server, boto3"


class Missing(Exception):
    """Something that the demo needs; the text says what to do."""


def transom(name):
    """A program of this repository."""
    folder = Path(os.environ.get("TRANSOM_PROGRAMS", TARGET / "release")).resolve()
    path = folder / name
    if not path.is_file():
        raise Missing(f"no {path}: build it with `make fleet-demo`, or set TRANSOM_PROGRAMS to its folder")
    return path


def tool(name, package):
    found = shutil.which(name, path=os.environ.get("PATH", "") + ADMIN)
    if not found:
        raise Missing(f"no program {name}: apt install {package}")
    return found


def prometheus():
    """Its program, or None: where there is systemd, its package would start a service."""
    return shutil.which("prometheus", path=os.environ.get("PATH", "") + ADMIN)


def python():
    """An interpreter with the S3 server, DuckDB and its extension; made once."""
    folder = TARGET / "fleet-demo-python"
    interpreter = folder / "bin/python"
    works = [interpreter, "-c", f"import {IMPORTS}"]
    if interpreter.exists() and subprocess.run(works, capture_output=True).returncode == 0:
        return interpreter
    print("demo: fetching DuckDB and an S3 server (moto) from Python's package index, once", flush=True)
    made = subprocess.run([sys.executable, "-m", "venv", "--clear", folder], capture_output=True, text=True)
    if made.returncode:
        raise Missing(f"no Python environment ({made.stdout.strip()}): apt install python3-venv")
    words = [interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES]
    fetched = subprocess.run(words, capture_output=True, text=True)
    if fetched.returncode:
        last = (fetched.stderr.strip().splitlines() or ["no message"])[-1]
        raise Missing(f"pip install {' '.join(PACKAGES)} failed: {last}")
    return interpreter


def duckdb(interpreter, home):
    """DuckDB's program, and a home in which it finds its extension, as `INSTALL httpfs` leaves it."""
    machine = "linux_amd64" if platform.machine() == "x86_64" else "linux_arm64"
    [package] = (interpreter.parent.parent / "lib").glob("*/site-packages/duckdb_extension_httpfs")
    name = "httpfs.duckdb_extension"
    to = home / ".duckdb/extensions" / f"v{DUCKDB}" / machine
    to.mkdir(parents=True)
    (to / name).symlink_to(package / "extensions" / f"v{DUCKDB}" / name)
    return interpreter.with_name("duckdb")
