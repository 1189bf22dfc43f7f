"""The cells of the matrix: what a guest says becomes one file each, which is compared with expected.toml."""

import dataclasses
import fnmatch
import hashlib
import json
import re
import subprocess
import time
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
KEPT = HERE.parent.parent / "target" / "matrix"
EVENT = re.compile(r'\{ "type": "test", .*\}')


def guests():
    """The rows that every guest runs, and the guests."""
    told = tomllib.loads((HERE / "guests.toml").read_text())
    return told.pop("core"), told


def commit():
    """The commit that is checked out, with a + where files differ from it."""
    git = ["git", "-C", HERE]
    short = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    changed = subprocess.run([*git, "status", "--porcelain", "-uno"], capture_output=True, text=True).stdout
    return short + ("+" if changed else "")


def path_of(guest, row_name):
    return KEPT / guest / (row_name.replace("/", ".") + ".json")


def key_of(row, guest):
    words = [row.digest, guest["kernel"], *guest["require"], str(guest.get("environment")), *guest.get("words", []),
             *filter(None, [guest.get("append")]), (HERE / "inside.sh").read_text()]
    return hashlib.sha256("\n".join(words).encode()).hexdigest()


def load(guest, row_name):
    path = path_of(guest, row_name)
    return json.loads(path.read_text()) if path.exists() else None


def is_there(name, row, guest):
    cell = load(name, row.name)
    return cell is not None and cell["key"] == key_of(row, guest)


class Reader:
    """Takes what a guest says, line by line."""

    def __init__(self, guest, rows, settings):
        self.guest, self.rows, self.settings = guest, rows, settings
        self.cell, self.text, self.done = None, [], set()
        self.commit = commit()
        self.log = (KEPT / guest / "guest.txt").open("w")

    def take(self, line):
        self.log.write(line)
        self.log.flush()
        if line.startswith("@@begin "):
            self._begin(line.split()[1])
        elif line.startswith("@@check ") and line[8:].strip():
            (KEPT / self.guest / "check").write_text(line[8:])
        elif line.startswith("@@end ") and self.cell:
            _, _, status, now, begun = line.split()
            self._end({"0": "ok", "124": "time", "137": "time"}.get(status, "failed"), float(now) - float(begun))
        elif line.startswith("@@skip ") and self.cell:
            _, test, lacking, why = line[7:].rstrip("\n").split("\t", 3)
            self.cell["skipped"][test] = [lacking, why]
        elif self.cell:
            self.text.append(line)
            found = EVENT.search(line)
            if found:
                self._event(found.group(0))

    def _event(self, text):
        try:
            event = json.loads(text)
        except ValueError:
            return
        if event["event"] == "started":
            self.cell["tests"].setdefault(event["name"], "unfinished")
        elif event["event"] in ("ok", "failed", "ignored"):
            self.cell["tests"][event["name"]] = event["event"]
            self.cell["seconds_of"][event["name"]] = round(event.get("exec_time", 0), 1)

    def _begin(self, name):
        self.cell = {"row": name, "tests": {}, "seconds_of": {}, "skipped": {}}
        self.text, self.begun = [], time.monotonic()

    def _end(self, result, seconds):
        row = self.rows[self.cell["row"]]
        before = load(self.guest, row.name) if row.alone else None
        self.cell |= {"result": result, "seconds": round(seconds, 1), "key": key_of(row, self.settings),
                      "commit": self.commit, "date": time.strftime("%Y-%m-%d"),
                      "whole": not self.settings.get("words")}
        path = path_of(self.guest, row.name)
        path.with_suffix(".again.txt" if before else ".txt").write_text("".join(self.text))
        path.write_text(json.dumps(after(before, self.cell) if before else self.cell, indent=1))
        self.done.add(row.name)
        tests = list(self.cell["tests"].values())
        print(f"{self.guest:14} {row.name:32} {result:7} {tests.count('ok')} of {len(tests)}, {seconds:.0f} s", flush=True)
        self.cell = None

    def close(self):
        """The rows that have a cell now; one in which the guest ended has one that says so."""
        if self.cell:
            self._end("ended", time.monotonic() - self.begun)
        self.log.close()
        return self.done


def expectations():
    path = HERE / "expected.toml"
    return tomllib.loads(path.read_text()).get("expected", []) if path.exists() else []


def matching(expected, guest, row, test):
    return [e for e in expected if fnmatch.fnmatch(guest, e["guest"]) and fnmatch.fnmatch(row, e["row"])
            and fnmatch.fnmatch(test, e.get("test", "*"))]


def bad_tests(cell):
    """Tests that did not pass; the whole row as `` where it ended otherwise."""
    bad = [test for test, result in cell["tests"].items() if result in ("failed", "unfinished")]
    return bad or ([""] if cell["result"] != "ok" else [])


def unexpected(guest, cell):
    """Those of them that expected.toml does not know."""
    expected = expectations()
    return [test for test in bad_tests(cell) if not matching(expected, guest, cell["row"], test)]


def once_more(name, row, guest):
    """What of a row is to be run again: tests alone, the whole row where some may not have begun, or None."""
    if not is_there(name, row, guest):
        return row
    cell = load(name, row.name)
    failed = unexpected(name, cell)
    if not failed:
        return None
    all_ended = cell["result"] == "failed" and "" not in failed and "unfinished" not in cell["tests"].values()
    return dataclasses.replace(row, alone=tuple(failed)) if all_ended else row


def after(cell, again):
    """A cell of which failed tests have been run again, alone: what they did then counts."""
    whole = {key: cell[key] | again[key] for key in ("tests", "seconds_of", "skipped")}
    return cell | whole | {"result": again["result"], "seconds": round(cell["seconds"] + again["seconds"], 1)}


def surprises(guests, rows_of):
    """What is not as expected.toml says, in sentences."""
    expected, used, seen = expectations(), set(), set()
    for guest in guests:
        for row in rows_of(guest):
            cell = load(guest, row.name)
            if cell is None:
                yield f"{guest} {row.name}: no result"
                continue
            seen |= {id(e) for e in expected for test in cell["tests"] if e in matching([e], guest, row.name, test)}
            for test in bad_tests(cell):
                found = matching(expected, guest, row.name, test)
                used |= {id(e) for e in found}
                if not found:
                    yield f"{guest} {row.name} {test or cell['result']}: failed"
    for e in expected:
        if id(e) in seen - used and not e.get("sometimes"):
            yield f"{e['guest']} {e['row']} {e.get('test', '*')}: passes, though expected.toml says that it fails"
