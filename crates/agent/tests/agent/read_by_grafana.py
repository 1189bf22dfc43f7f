"""Reads a dashboard into Grafana's own types, writes it again, and prints every field that was
lost on the way: Grafana does not know it."""

import json
import sys

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard


def lost(ours, theirs, place):
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            if key in theirs:
                yield from lost(value, theirs[key], f"{place}.{key}")
            elif value is not None:
                yield f"{place}.{key}"
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (one, other) in enumerate(zip(ours, theirs)):
            yield from lost(one, other, f"{place}[{number}]")
    elif ours != theirs:
        yield f"{place}: {ours!r} became {theirs!r}"


register_default_plugins()
with open(sys.argv[1]) as file:
    dashboard = json.load(file)
known = json.loads(json.dumps(Dashboard.from_json(dashboard), cls=JSONEncoder))
unknown = list(lost(dashboard, known, "dashboard"))
print(*unknown, sep="\n", end="\n" if unknown else "")
sys.exit(bool(unknown))
