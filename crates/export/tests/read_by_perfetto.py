"""Decodes a file with the schema that the package `perfetto` publishes, as JSON."""

import json
import sys

from google.protobuf import unknown_fields
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema


def strangers(message, path="Trace"):
    """Fields that the schema does not have."""
    for field in unknown_fields.UnknownFieldSet(message):
        yield f"{path}.{field.field_number}"
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for each in value if field.is_repeated else [value]:
            yield from strangers(each, f"{path}.{field.name}")


def notes(event):
    return {
        note.name: getattr(note, note.WhichOneof("value")) for note in event.debug_annotations
    }


trace = schema.Trace()
with open(sys.argv[1], "rb") as file:
    trace.ParseFromString(file.read())

seen = {"unknown": sorted(set(strangers(trace))), "clocks": [], "tracks": {}, "events": []}
for packet in trace.packet:
    kind = packet.WhichOneof("data")
    if kind == "clock_snapshot":
        snapshot = packet.clock_snapshot
        seen["clocks"] = [[clock.clock_id, clock.timestamp] for clock in snapshot.clocks]
        seen["primary"] = snapshot.primary_trace_clock
    elif kind == "track_descriptor":
        track = packet.track_descriptor
        seen["tracks"][str(track.uuid)] = {
            "name": track.name or track.process.process_name,
            "description": track.description,
            "pid": track.process.pid,
            "parent": str(track.parent_uuid) if track.HasField("parent_uuid") else None,
            "unit": track.counter.unit_name or track.counter.unit,
            "multiplier": track.counter.unit_multiplier,
            "is_counter": track.HasField("counter"),
        }
    elif kind == "track_event":
        event = packet.track_event
        seen["events"].append(
            {
                "time": packet.timestamp,
                "clock": packet.timestamp_clock_id,
                "sequence": packet.trusted_packet_sequence_id,
                "type": event.Type.Name(event.type).removeprefix("TYPE_"),
                "track": str(event.track_uuid),
                "name": event.name,
                "value": event.counter_value,
                "notes": notes(event),
            }
        )
print(json.dumps(seen))
