"""An S3 server (moto) with an empty bucket, which is gone with this process.

store.py ADDRESS BUCKET: prints its port, and serves until it is ended.
"""

import logging
import os
import signal
import sys

os.environ.update(AWS_ACCESS_KEY_ID="demo", AWS_SECRET_ACCESS_KEY="demo", AWS_DEFAULT_REGION="us-east-1")
logging.getLogger("werkzeug").setLevel(logging.ERROR)

import boto3
from moto.server import ThreadedMotoServer


def main(address, bucket):
    server = ThreadedMotoServer(ip_address=address, port=0, verbose=False)
    server.start()
    port = server.get_host_and_port()[1]
    boto3.client("s3", endpoint_url=f"http://{address}:{port}").create_bucket(Bucket=bucket)
    print(port, flush=True)
    signal.sigwait([signal.SIGTERM, signal.SIGINT])
    server.stop()


main(*sys.argv[1:])
