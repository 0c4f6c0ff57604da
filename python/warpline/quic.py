"""Background transfer between programs: QUIC with any congestion control of the library, TCP Nice by default.

    import warpline

    warpline.quic.keygen("team.key")                     # once; copy it to both machines

    for message in warpline.quic.serve("0.0.0.0:4433", key="team.key"):
        print(message.remote, len(message.data))

    warpline.quic.send("host:4433", b"hello", key="team.key")

Everything is encrypted, and both ends prove who they are: the key of each must be in the other's `trust`, a file with a public key on each
line. Without `trust`, both must have the same key. Calls block, but let other threads run, and Ctrl-C ends them. A message counts as sent when
the receiver has all of it.
"""

from __future__ import annotations

import os
from typing import Union

from warpline._warpline import QuicCongestion as Congestion
from warpline._warpline import QuicConnection as Connection
from warpline._warpline import QuicMessage as Message
from warpline._warpline import QuicServer as Server
from warpline._warpline import quic_keygen

__all__ = ["Congestion", "Connection", "Message", "Server", "connect", "keygen", "send", "serve"]

Path = Union[str, "os.PathLike[str]"]


def keygen(path: Path) -> str:
    """Make a key in a new file that only its owner can read. Returns its public half, a line for the `trust` files of others."""
    return quic_keygen(os.fspath(path))


def connect(address: str, *, key: Path, trust: Path | None = None, cc: str = "nice") -> Connection:
    """Connect to a server at "host:port", to send several messages. Use the connection as a context manager, or close it.

    Raises `OSError`, for example `PermissionError` if a key is not trusted and `TimeoutError` if the server does not answer, or `ValueError` if `key`
    is not a key file. The error of a file names it.
    """
    return Connection.connect(address, key=os.fspath(key), trust=None if trust is None else os.fspath(trust), cc=cc)


def send(address: str, data: bytes | os.PathLike[str], *, key: Path, trust: Path | None = None, cc: str = "nice") -> int:
    """Send one message to the server at "host:port": bytes, or the content of a file. Returns its length once the receiver has it."""
    with connect(address, key=key, trust=trust, cc=cc) as connection:
        return connection.send(data)


def serve(address: str, *, key: Path, trust: Path | None = None, max_bytes: int = 1 << 30) -> Server:
    """Listen on "address:port" (port 0 for any) and iterate over the messages that come in.

    A message of more than `max_bytes` is refused.
    """
    return Server.bind(address, key=os.fspath(key), trust=None if trust is None else os.fspath(trust), max_bytes=max_bytes)
