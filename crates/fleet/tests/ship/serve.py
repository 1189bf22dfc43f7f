"""A real S3 server (moto) with an empty bucket `tables`.

serve.py: prints its port as a line. Then, for each line it reads, writes all objects of the bucket
below that folder, and prints how many they are. Ends with its input.
"""

import logging
import os
import pathlib
import sys

os.environ.update(
    AWS_ACCESS_KEY_ID="testing", AWS_SECRET_ACCESS_KEY="testing", AWS_DEFAULT_REGION="us-east-1"
)
logging.getLogger("werkzeug").setLevel(logging.ERROR)

import boto3
from moto.server import ThreadedMotoServer


def copy(client, folder):
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="tables")
    keys = [entry["Key"] for page in pages for entry in page.get("Contents", [])]
    for key in keys:
        path = pathlib.Path(folder, key)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(client.get_object(Bucket="tables", Key=key)["Body"].read())
    return len(keys)


def main():
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    port = server.get_host_and_port()[1]
    client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}")
    client.create_bucket(Bucket="tables")
    print(port, flush=True)
    for line in sys.stdin:
        print(copy(client, line.strip()), flush=True)
    server.stop()


main()
