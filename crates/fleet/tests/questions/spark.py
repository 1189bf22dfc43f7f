"""Runs statements in Spark. spark.py: reads {name: statement} as a line, and prints
{name: [[column…], [row…]]}. Run by engines.rs."""

import json
import sys

from pyspark.sql import SparkSession

session = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.session.timeZone", "Asia/Tokyo")
    .getOrCreate()
)
answers = {}
for name, statement in json.loads(sys.stdin.readline()).items():
    answer = session.sql(statement)
    answers[name] = [answer.columns, [list(row) for row in answer.collect()]]
print(json.dumps(answers))
