"""Background transfer between Python programs."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import warpline


def test_messages_arrive(tmp_path: Path) -> None:
    key = tmp_path / "team.key"
    public = warpline.quic.keygen(key)
    data = bytes(range(256)) * 2000
    (tmp_path / "file").write_bytes(data)
    with warpline.quic.serve("127.0.0.1:0", key=key) as server:
        got: list[warpline.quic.Message] = []

        def receive() -> None:
            for message in server:
                got.append(message)
                if len(got) == 3:
                    return

        thread = threading.Thread(target=receive)
        thread.start()
        assert warpline.quic.send(server.address, data, key=key) == len(data)
        with warpline.quic.connect(server.address, key=key, cc="ledbat") as connection:
            assert connection.peer == public
            assert connection.send(tmp_path / "file") == len(data)
            connection.send(b"")
            congestion = connection.congestion
            assert congestion is not None
            assert congestion.algorithm == "ledbat" and congestion.delivered >= len(data)
        thread.join(20)
        assert [message.data for message in got] == [data, data, b""]
        assert {message.peer for message in got} == {public}
    with pytest.raises(ValueError, match="closed"):
        connection.send(b"x")


def test_peers_with_an_untrusted_key_are_refused(tmp_path: Path) -> None:
    warpline.quic.keygen(tmp_path / "a.key")
    warpline.quic.keygen(tmp_path / "b.key")
    with warpline.quic.serve("127.0.0.1:0", key=tmp_path / "a.key") as server:
        with pytest.raises(PermissionError, match="not trusted"):
            warpline.quic.send(server.address, b"x", key=tmp_path / "b.key")


def test_errors_name_what_is_wrong(tmp_path: Path) -> None:
    key = tmp_path / "team.key"
    warpline.quic.keygen(key)
    with pytest.raises(FileExistsError, match="team.key"):
        warpline.quic.keygen(key)
    with pytest.raises(FileNotFoundError, match="No such file or directory: .*other.key") as missing:
        warpline.quic.connect("127.0.0.1:1", key=tmp_path / "other.key")
    assert missing.value.filename == str(tmp_path / "other.key")
    with warpline.quic.serve("127.0.0.1:0", key=key) as server, pytest.raises(FileNotFoundError, match="no-data"):
        warpline.quic.send(server.address, tmp_path / "no-data", key=key)
    with pytest.raises(ValueError, match="there are reno, cubic"):
        warpline.quic.connect("127.0.0.1:1", key=key, cc="niece")
    key.chmod(0o644)
    with pytest.raises(ValueError, match="chmod 600"):
        warpline.quic.connect("127.0.0.1:1", key=key)
