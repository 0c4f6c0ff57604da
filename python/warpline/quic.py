"""Background transfer between programs: QUIC with any congestion control of the library, TCP Nice unless another is named.

    import warpline

    warpline.quic.keygen("team.key")                     # once; copy it to both machines

    for message in warpline.quic.serve("0.0.0.0:4433", key="team.key"):
        print(message.remote, len(message.data))

    warpline.quic.send("host:4433", b"hello", key="team.key")

Everything is encrypted, and both ends prove who they are: each shows a key that must be on the other's list (`trust`, a file with a public key in each
line), or, without a list, the same key. Calls block, let other threads run, and heed Ctrl-C. A message counts as sent when the receiver has it whole.
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
    """Make a key in a new file that only its owner can read. Returns its public half, a line for others' lists."""
    return quic_keygen(os.fspath(path))


def connect(address: str, *, key: Path, trust: Path | None = None, cc: str = "nice") -> Connection:
    """Connect to a server at "host:port", for several messages; use it as a context manager, or close it.

    Raises `OSError` (`PermissionError` where a key is not trusted, `TimeoutError` where nobody answers) or `ValueError` for a key file that is none.
    """
    return Connection.connect(address, key=os.fspath(key), trust=None if trust is None else os.fspath(trust), cc=cc)


def send(address: str, data: bytes | os.PathLike[str], *, key: Path, trust: Path | None = None, cc: str = "nice") -> int:
    """Send one message to the server at "host:port": bytes, or the content of a file. Returns its length, when the receiver has it."""
    with connect(address, key=key, trust=trust, cc=cc) as connection:
        return connection.send(data)


def serve(address: str, *, key: Path, trust: Path | None = None, max_bytes: int = 1 << 30) -> Server:
    """Listen on "address:port" (port 0 for any) and iterate over the messages that come in.

    A message of more than `max_bytes` is refused.
    """
    return Server.bind(address, key=os.fspath(key), trust=None if trust is None else os.fspath(trust), max_bytes=max_bytes)
