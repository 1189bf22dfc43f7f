#!/usr/bin/env python3
"""Merges the objects that transom-fleet ship has landed into few large ones, below another address.

    compact.py --from s3://tables/fleet --to s3://tables/merged

Needs the packages pyarrow and boto3. See docs/fleet.md.
"""

import argparse
import collections
import datetime
import io
import os
import re
import sys
import tempfile

import boto3
import botocore.exceptions
import pyarrow
import pyarrow.compute
import pyarrow.parquet

TABLES = ("connections", "decisions", "events", "agent", "given_up", "hosts")
HOUR = re.compile(r"[a-z_]+/date=(\d{4}-\d\d-\d\d)/hour=(\d\d)/")
# What a merged object was made of: the record lies in the object, so both come to be in one step.
SOURCES = b"transom.sources"
# What questions are about: rows of equal values lie together, so that an engine leaves out most row
# groups by their statistics.
SORTED_BY = {"connections": "remote_prefix", "events": "cookie"}
# With fewer, a footer is longer than what a question about a customer reads beside it.
ROWS_OF_A_GROUP = 50_000
TAKEN = ("PreconditionFailed", "ConditionalRequestConflict")


class Place:
    """A folder of a bucket."""

    def __init__(self, address):
        found = re.fullmatch(r"s3://([^/]+)/?(.*?)/?", address)
        if not found:
            raise argparse.ArgumentTypeError(f"'{address}' is no s3://BUCKET/PREFIX")
        self.bucket, prefix = found.groups()
        self.prefix = prefix + "/" if prefix else ""
        self.client = boto3.client("s3", region_name=os.environ.get("AWS_REGION"))

    def hours(self, below):
        """Folder of the hour → {key: size}."""
        hours = collections.defaultdict(dict)
        pages = self.client.get_paginator("list_objects_v2")
        for page in pages.paginate(Bucket=self.bucket, Prefix=self.prefix + below):
            for entry in page.get("Contents", []):
                key = entry["Key"][len(self.prefix) :]
                if (hour := HOUR.match(key)) and key.endswith(".parquet"):
                    hours[hour[0]][key] = entry["Size"]
        return hours

    def read(self, key, **part):
        answer = self.client.get_object(Bucket=self.bucket, Key=self.prefix + key, **part)
        return answer["Body"].read()

    def create(self, key, file):
        """False if there is such an object: it stays as it is."""
        name = {"Bucket": self.bucket, "Key": self.prefix + key}
        try:
            self.client.put_object(**name, Body=file, IfNoneMatch="*")
        except botocore.exceptions.ClientError as error:
            if error.response["Error"]["Code"] in TAKEN:
                return False
            raise
        return True

    def remove(self, key):
        self.client.delete_object(Bucket=self.bucket, Key=self.prefix + key)


def sources_of(place, key):
    length = int.from_bytes(place.read(key, Range="bytes=-8")[:4], "little")
    footer = place.read(key, Range=f"bytes=-{length + 8}")
    metadata = pyarrow.parquet.read_metadata(io.BytesIO(footer)).metadata or {}
    return metadata.get(SOURCES, b"").decode().splitlines()


def read(place, key):
    try:
        table = pyarrow.parquet.ParquetFile(io.BytesIO(place.read(key))).read()
    except pyarrow.ArrowException as error:
        print(f"{key} is damaged and stays: {error}", file=sys.stderr)
        return None
    fields = [pyarrow.field(field.name, signed(field.type)) for field in table.schema]
    return table.cast(pyarrow.schema(fields))


def signed(of):
    """Iceberg has no unsigned numbers, and none of ours is beyond what these hold."""
    types = pyarrow.types
    if types.is_unsigned_integer(of):
        return pyarrow.int64()
    if types.is_list(of):
        return pyarrow.list_(of.value_field.with_type(signed(of.value_type)))
    if types.is_struct(of):
        return pyarrow.struct([field.with_type(signed(field.type)) for field in of])
    return of


def batches(place, sizes, largest):
    """{key: rows} of about `largest` bytes each, without what is damaged."""
    batch, size = {}, 0
    for key in sorted(sizes):
        if batch and size + sizes[key] > largest:
            yield batch
            batch, size = {}, 0
        if (table := read(place, key)) is not None:
            batch[key] = table
            size += sizes[key]
    if batch:
        yield batch


def write(batch, file, sorted_by):
    # A newer agent has more columns; the rows of an older one have null there.
    rows = pyarrow.concat_tables(batch.values(), promote_options="default")
    rows = rows.replace_schema_metadata(None)
    # Arrow's own words about the schema would double a footer, which each question reads.
    how = {"compression": "zstd", "store_schema": False} | encodings(rows.schema)
    with pyarrow.parquet.ParquetWriter(file, rows.schema, **how) as writer:
        for group in row_groups(rows, sorted_by):
            writer.write_table(group)
        writer.add_key_value_metadata({SOURCES: "\n".join(batch)})
    file.seek(0)


def row_groups(rows, sorted_by):
    """Sorted; rows of one value stay in their order, by host and time. One after another, since a
    second table of all rows would need as much memory as the first."""
    begins = range(0, len(rows), ROWS_OF_A_GROUP)
    if sorted_by not in rows.column_names:
        return (rows.slice(begin, ROWS_OF_A_GROUP) for begin in begins)
    order = pyarrow.compute.sort_indices(rows[sorted_by])
    return (rows.take(order.slice(begin, ROWS_OF_A_GROUP)) for begin in begins)


def encodings(schema):
    """As the agent's: names are few, and numbers are near to their neighbours'."""
    types = pyarrow.types
    names = [field.name for field in schema if types.is_string(field.type)]
    numbers = [
        field.name
        for field in schema
        if types.is_integer(field.type) or types.is_timestamp(field.type)
    ]
    delta = dict.fromkeys(numbers, "DELTA_BINARY_PACKED")
    return {"use_dictionary": names, "column_encoding": delta}


def merge(raw, to, hour, sizes, largest):
    """Merges what no merged object has yet, and returns the keys of what one has now.

    Objects are numbered and only created. A job that finds its number taken has not seen what
    another job merged, and looks again.
    """
    while True:
        done = sorted(to.hours(hour)[hour])
        known = {source for key in done for source in sources_of(to, key)}
        number = int(done[-1][len(hour) : -len(".parquet")]) if done else 0
        rest = {key: size for key, size in sizes.items() if key not in known}
        try:
            for batch in batches(raw, rest, largest):
                number += 1
                with tempfile.TemporaryFile() as file:
                    write(batch, file, SORTED_BY.get(hour.split("/")[0]))
                    if not to.create(f"{hour}{number:06}.parquet", file):
                        break
                known.update(batch)
                print(f"{hour}{number:06}.parquet has {len(batch)} objects", flush=True)
            else:
                return known
        except raw.client.exceptions.NoSuchKey:
            # Another job has merged and removed it.
            sizes = raw.hours(hour)[hour]


def time(text):
    return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.timezone.utc)


def run(raw, to, now, largest, remove_after):
    lacking = 0
    for table in TABLES:
        for hour, sizes in sorted(raw.hours(table + "/").items()):
            age = now - time("{}T{}:00".format(*HOUR.match(hour).groups()))
            if age < datetime.timedelta(hours=2):
                continue
            known = merge(raw, to, hour, sizes, largest)
            lacking += len(sizes.keys() - known)
            if remove_after is not None and age >= datetime.timedelta(days=remove_after):
                for key in sorted(sizes.keys() & known):
                    raw.remove(key)
    return lacking


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    address = {"metavar": "s3://BUCKET/PREFIX", "required": True, "type": Place}
    parser.add_argument("--from", dest="raw", help="where transom-fleet ship ships to", **address)
    parser.add_argument("--to", help="another place, for the merged objects", **address)
    parser.add_argument("--largest", metavar="MB", type=float, default=128, help="[128]")
    parser.add_argument("--remove-after", metavar="DAYS", type=int, help="remove what is merged then")
    parser.add_argument("--now", metavar="TIME", type=time, help="in UTC, instead of the clock's")
    args = parser.parse_args()
    now = args.now or datetime.datetime.now(datetime.timezone.utc)
    if (args.raw.bucket, args.raw.prefix) == (args.to.bucket, args.to.prefix):
        parser.error("--from and --to are one place, where a reader would find each row twice")
    try:
        lacking = run(args.raw, args.to, now, args.largest * 1e6, args.remove_after)
    except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
        sys.exit(f"compact.py: {error}")
    sys.exit(f"compact.py: {lacking} objects could not be merged" if lacking else None)


if __name__ == "__main__":
    main()
