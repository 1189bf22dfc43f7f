"""Serves folders as buckets of a real S3 server (moto), and runs statements over them.

engines.py BUCKET=FOLDER…: prints the server's port as a line, reads {name: [engine, statement]} as a
line, and prints {name: [[column…], [row…]]}. Run by engines.rs.
"""

import glob
import json
import logging
import os
import pathlib
import sys

os.environ.update(
    AWS_ACCESS_KEY_ID="testing", AWS_SECRET_ACCESS_KEY="testing", AWS_DEFAULT_REGION="us-east-1"
)
logging.getLogger("werkzeug").setLevel(logging.ERROR)

import boto3
import chdb.session
import duckdb
import duckdb_extension_httpfs
from moto.server import ThreadedMotoServer


def fill(port, buckets):
    client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}")
    for bucket, folder in buckets:
        client.create_bucket(Bucket=bucket)
        for file in sorted(pathlib.Path(folder).rglob("*.parquet")):
            key = str(file.relative_to(folder))
            client.put_object(Bucket=bucket, Key=key, Body=file.read_bytes())


def duckdb_on(port):
    connection = duckdb.connect()
    folder = os.path.dirname(duckdb_extension_httpfs.__file__)
    [extension] = glob.glob(folder + "/extensions/*/*.duckdb_extension")
    connection.execute(f"LOAD '{extension}'")
    connection.execute(
        "CREATE SECRET (TYPE s3, KEY_ID 'testing', SECRET 'testing', REGION 'us-east-1',"
        f" ENDPOINT '127.0.0.1:{port}', USE_SSL false, URL_STYLE 'path')"
    )
    # Answers must not depend on where somebody sits.
    connection.execute("SET TimeZone = 'Asia/Tokyo'")

    def run(statement):
        answer = connection.execute(statement)
        return [column[0] for column in answer.description], answer.fetchall()

    return run


def clickhouse():
    session = chdb.session.Session()

    def run(statement):
        answer = json.loads(session.query(statement, "JSONCompact").bytes())
        return [column["name"] for column in answer["meta"]], answer["data"]

    return run


def main():
    buckets = [word.split("=", 1) for word in sys.argv[1:]]
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    port = server.get_host_and_port()[1]
    fill(port, buckets)
    print(port, flush=True)
    engines = {"duckdb": duckdb_on(port), "clickhouse": clickhouse()}
    statements = json.loads(sys.stdin.readline())
    answers = {name: engines[engine](text) for name, (engine, text) in statements.items()}
    print(json.dumps(answers))
    server.stop()


main()
