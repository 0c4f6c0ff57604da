"""A transfer over QUIC with aioquic. The README of the folder above says what it speaks."""

import asyncio
import ssl
import sys
import time

from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import StreamDataReceived

ALPN = ["hq-interop"]
#: The bytes of a transfer repeat after this many.
PERIOD = bytes(range(251))


def pattern(begin: int, count: int) -> bytes:
    """``count`` bytes of a transfer, from byte ``begin``."""
    offset = begin % len(PERIOD)
    return (PERIOD * (count // len(PERIOD) + 2))[offset : offset + count]


class Server(QuicConnectionProtocol):
    """Answers requests."""

    def __init__(self, *arguments, **options) -> None:
        super().__init__(*arguments, **options)
        self.requests: dict[int, bytes] = {}

    def quic_event_received(self, event) -> None:
        if isinstance(event, StreamDataReceived):
            request = self.requests.pop(event.stream_id, b"") + event.data
            if event.end_stream:
                self._quic.send_stream_data(event.stream_id, pattern(0, int(request.split(b"/")[1])), end_stream=True)
                self.transmit()
            else:
                self.requests[event.stream_id] = request


async def run_server(certificate: str, key: str, port: str) -> None:
    configuration = QuicConfiguration(is_client=False, alpn_protocols=ALPN)
    configuration.load_cert_chain(certificate, key)
    await serve("0.0.0.0", int(port), configuration=configuration, create_protocol=Server)
    print("ready", flush=True)
    await asyncio.Event().wait()


async def run_client(host: str, port: str, size: str) -> None:
    # The server's certificate is its own, made when the programs are built.
    configuration = QuicConfiguration(is_client=True, alpn_protocols=ALPN, verify_mode=ssl.CERT_NONE)
    begun = time.monotonic()
    async with connect(host, int(port), configuration=configuration) as connection:
        reader, writer = await connection.create_stream()
        writer.write(f"GET /{size}\r\n".encode())
        writer.write_eof()
        read = 0
        while data := await reader.read(65536):
            if data != pattern(read, len(data)):
                raise SystemExit(f"a byte from {read} on is wrong")
            read += len(data)
        if read != int(size):
            raise SystemExit(f"{read} bytes of {size} came")
        print(f"{time.monotonic() - begun:.6f}")


def main() -> None:
    match sys.argv[1:]:
        case ["server", certificate, key, port]:
            asyncio.run(run_server(certificate, key, port))
        case ["client", host, port, size]:
            asyncio.run(run_client(host, port, size))
        case _:
            raise SystemExit("usage: server CERTIFICATE KEY PORT | client ADDRESS PORT BYTES")


main()
