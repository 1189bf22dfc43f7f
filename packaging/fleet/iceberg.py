#!/usr/bin/env python3
"""Registers merged objects in Iceberg tables, each once and without writing it again.

    iceberg.py --of s3://tables/merged --catalog /var/lib/transom/iceberg.sqlite

Needs the packages pyarrow, boto3 and pyiceberg[sql-sqlite]. See docs/fleet.md.
"""

import argparse
import fcntl
import os

import pyarrow.fs
import pyarrow.parquet
from compact import TABLES, Place
from pyiceberg.catalog.sql import SqlCatalog


def register(catalog, files, place, name):
    address = f"s3://{place.bucket}/{place.prefix}"
    hours = place.hours(name + "/").values()
    merged = sorted(address + key for keys in hours for key in keys)
    if not merged:
        return 0
    catalog.create_namespace_if_not_exists("fleet")
    table, known = None, set()
    if catalog.table_exists(f"fleet.{name}"):
        table = catalog.load_table(f"fleet.{name}")
        known = {task.file.file_path for task in table.scan().plan_files()}
    new = [path for path in merged if path not in known]
    if not new:
        return 0
    read = pyarrow.parquet.read_schema
    schemas = [read(path.removeprefix("s3://"), filesystem=files) for path in new]
    schema = pyarrow.unify_schemas([schema.remove_metadata() for schema in schemas])
    location = f"{address}iceberg/{name}"
    table = table or catalog.create_table(f"fleet.{name}", schema, location=location)
    # One snapshot: who reads the table has all of the new objects or none.
    with table.transaction() as transaction:
        with transaction.update_schema() as update:
            update.union_by_name(schema)
        transaction.add_files(new)
    return len(new)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--of", metavar="s3://BUCKET/PREFIX", required=True, type=Place)
    parser.add_argument("--catalog", metavar="FILE", required=True, help="of SQLite")
    args = parser.parse_args()
    region, endpoint = os.environ.get("AWS_REGION"), os.environ.get("AWS_ENDPOINT_URL")
    # Two that find an object unregistered would both register it.
    with open(args.catalog + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        settings = {"uri": f"sqlite:///{os.path.abspath(args.catalog)}"}
        settings |= {"s3.region": region} if region else {}
        settings |= {"s3.endpoint": endpoint} if endpoint else {}
        catalog = SqlCatalog("transom", **settings)
        files = pyarrow.fs.S3FileSystem(region=region, endpoint_override=endpoint)
        for name in TABLES:
            if count := register(catalog, files, args.of, name):
                print(f"fleet.{name} has {count} more objects", flush=True)


if __name__ == "__main__":
    main()
