"""An echo server and many clients at a time, with asyncio; for asyncio.toml."""

import asyncio
import hashlib
import sys
import time

CLIENTS = 200
LINES = 20


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        writer.write(line)
        await writer.drain()
    writer.close()


async def serve(port: int) -> None:
    server = await asyncio.start_server(echo, "0.0.0.0", port, backlog=CLIENTS)
    print("ready", flush=True)
    await server.serve_forever()


async def client(host: str, port: int, number: int) -> list[float]:
    """The times in seconds that the answers took."""
    reader, writer = await asyncio.open_connection(host, port)
    took = []
    for line in range(LINES):
        begun = time.monotonic()
        message = f"{number} {line} {'x' * (number % 50)}\n".encode()
        writer.write(message)
        if await reader.readline() != message:
            raise SystemExit(f"client {number} got another line than it sent")
        took.append(time.monotonic() - begun)
    writer.close()
    await writer.wait_closed()
    return took


async def ask(host: str, port: int) -> None:
    begun = time.monotonic()
    every = await asyncio.gather(*(client(host, port, number) for number in range(CLIENTS)))
    times = sorted(took for of_one in every for took in of_one)
    digest = hashlib.sha256(repr(times).encode()).hexdigest()[:16]
    print(f"{len(times)} answers in {time.monotonic() - begun:.3f} s, median {times[len(times) // 2] * 1000:.3f} ms, all times {digest}")


if __name__ == "__main__":
    if sys.argv[1] == "server":
        asyncio.run(serve(int(sys.argv[2])))
    else:
        asyncio.run(ask(sys.argv[2], int(sys.argv[3])))
