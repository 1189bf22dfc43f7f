"""What the page says of each guest, kept in the repository: cells are only where they were run, and a machine
that has run one of them again need not run all the others."""

import json
from collections import Counter, defaultdict

import cells

FOLDER = cells.HERE / "results"
# What keeps a kernel from taking any program.
OBSTACLES = ("BTF", "lockdown", "socket cookies", "bpf(2)")


def tiers(check):
    """The probes by tier, of what `transom check` said."""
    if not check.get("can_monitor", True):
        lacking = [fact for fact in check["facts"] if not fact["ok"] and fact["name"] in OBSTACLES]
        return {"polling": [f"{fact['name']} {fact['found'].split(':')[0]}" for fact in lacking]}
    found = defaultdict(list)
    for probe in check.get("probes", []):
        found[probe["tier"] or "none"].append(probe["purpose"])
    return found


def summary(cell):
    """A cell without what no reader asks for."""
    passed = list(cell["tests"].values()).count("ok") - len(cell["skipped"])
    lacking = Counter(what for what, _ in cell["skipped"].values())
    return {"passed": passed, "bad": cells.bad_tests(cell), "lacking": dict(sorted(lacking.items())),
            "result": cell["result"], "seconds": cell["seconds"], "commit": cell["commit"], "date": cell["date"]}


def load(guest):
    path = FOLDER / f"{guest}.json"
    return json.loads(path.read_text()) if path.exists() else {"kernel": "", "tiers": {}, "rows": {}}


def taken(guest):
    """The results of a guest, after those of its cells here that are whole and not older."""
    kept, is_new = load(guest), False
    for path in sorted((cells.KEPT / guest).glob("*.json")):
        cell = json.loads(path.read_text())
        before = kept["rows"].get(cell["row"])
        if cell.get("whole") and (before is None or cell["date"] >= before["date"]):
            kept["rows"][cell["row"]] = summary(cell)
            is_new = True
    said = cells.KEPT / guest / "check"
    if is_new and said.exists():
        check = json.loads(said.read_text())
        kept |= {"kernel": check["kernel"], "tiers": tiers(check)}
    return kept


def save(guest, kept):
    """A row a line, so that a change is one."""
    if not kept["rows"]:
        return
    FOLDER.mkdir(exist_ok=True)
    rows = ",\n  ".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(kept["rows"].items()))
    head = ",\n ".join(f"{json.dumps(key)}: {json.dumps(kept[key])}" for key in ("kernel", "tiers"))
    (FOLDER / f"{guest}.json").write_text(f'{{{head},\n "rows": {{\n  {rows}\n }}}}\n')
