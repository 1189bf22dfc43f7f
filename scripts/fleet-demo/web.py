"""The shop of one host: answers each request with as many bytes as it asks for, and closes.

web.py ADDRESS PORT
"""

import asyncio
import ctypes
import sys

PR_SET_NAME = 15
BLOCK = bytes(64 * 1024)


async def answer(reader, writer):
    try:
        left = int(await reader.readline())
        while left > 0:
            writer.write(BLOCK[:left])
            left -= len(BLOCK)
            await writer.drain()
        # Whoever closes first keeps the connection in TIME-WAIT; the customer does.
        await reader.read()
    except (ConnectionError, TimeoutError, ValueError):
        pass
    finally:
        writer.close()


async def main(address, port):
    server = await asyncio.start_server(answer, address, int(port), backlog=512)
    await server.serve_forever()


ctypes.CDLL(None).prctl(PR_SET_NAME, b"shop", 0, 0, 0)
asyncio.run(main(*sys.argv[1:]))
