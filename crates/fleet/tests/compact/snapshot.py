"""Prints the data files of an Iceberg table's current snapshot: snapshot.py CATALOG TABLE."""

import os
import sys

from pyiceberg.catalog.sql import SqlCatalog

settings = {"s3.endpoint": os.environ["AWS_ENDPOINT_URL"], "s3.region": os.environ["AWS_REGION"]}
catalog = SqlCatalog("transom", uri=f"sqlite:///{sys.argv[1]}", **settings)
for task in catalog.load_table(f"fleet.{sys.argv[2]}").scan().plan_files():
    print(task.file.file_path)
