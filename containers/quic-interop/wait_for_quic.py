"""Waits until a QUIC server answers, at most ten seconds: `wait_for_quic.py HOST:PORT`.

It sends a packet of a version that nobody has. A server answers that with the versions that it knows (RFC 9000, sections 5.2.2 and 6.1), and begins nothing.
"""

import secrets
import socket
import sys
import time

PATIENCE = 10.0
"""Seconds to wait in all."""
PAUSE = 0.1
"""Seconds to wait for an answer before the next packet."""
FORM = 0xC0
"""The first byte of a packet with a long header (RFC 8999, section 5.1)."""
NO_VERSION = 0x1A2A3A4A
"""A version that is reserved so that servers have to answer that they do not know it (RFC 9000, section 15)."""
SIZE = 1200
"""Bytes of the packet; servers ignore smaller ones (RFC 9000, section 14.1)."""


def packet(identifier: bytes) -> bytes:
    """A packet whose connection identifiers are both `identifier`."""
    head = bytes([FORM]) + NO_VERSION.to_bytes(4, "big") + 2 * (bytes([len(identifier)]) + identifier)
    return head.ljust(SIZE, b"\0")


def is_answer(data: bytes, identifier: bytes) -> bool:
    """Whether these bytes are a list of versions for `identifier` (RFC 8999, section 6)."""
    return len(data) > 6 + len(identifier) and data[0] >= 0x80 and data[1:5] == bytes(4) and data[6 : 6 + len(identifier)] == identifier


def wait(host: str, port: int, patience: float) -> bool:
    """Whether the server answers within `patience` seconds."""
    identifier = secrets.token_bytes(8)
    end = time.monotonic() + patience
    while time.monotonic() < end:
        try:
            # Looked up each time: the name may not be known yet.
            family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, kind, protocol) as own:
                own.settimeout(PAUSE)
                own.connect(place)
                own.send(packet(identifier))
                if is_answer(own.recv(2000), identifier):
                    return True
        except TimeoutError:
            continue
        except OSError:
            # There is no such host yet, or nobody listens.
            time.sleep(PAUSE)
    return False


def main() -> int:
    """Waits for the server that the command line names."""
    host, colon, port = "".join(sys.argv[1:2]).rpartition(":")
    if len(sys.argv) != 2 or not colon or not port.isdigit():
        print("usage: wait_for_quic.py HOST:PORT", file=sys.stderr)
        return 2
    if wait(host.strip("[]"), int(port), PATIENCE):
        return 0
    print(f"{host}:{port} has not answered a QUIC packet within {PATIENCE:.0f} s", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
