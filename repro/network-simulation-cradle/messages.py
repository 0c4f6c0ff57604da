"""Both ends of a stream of messages at random times over one TCP connection, run by the guests of figure 7.

    python3 messages.py send ADDRESS RATE SECONDS SEED MSS
    python3 messages.py receive MSS

The receiver prints the latency of the messages as JSON, from their creation to the delivery of their last byte. A message is created at its
time even if the one before has not been sent yet.
"""

import json
import random
import socket
import struct
import sys
import time

SIZE = 512
PORT = 5060


def opened(mss: str) -> socket.socket:
    one = socket.socket()
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, int(mss))
    return one


def send(address: str, rate: str, seconds: str, seed: str, mss: str) -> None:
    one = opened(mss)
    one.connect((address, PORT))
    draw = random.Random(int(seed))
    due = start = time.time()
    while (due := due + draw.expovariate(float(rate))) < start + float(seconds):
        time.sleep(max(0.0, due - time.time()))
        one.sendall(struct.pack("!d", due).ljust(SIZE, b"\0"))
    one.shutdown(socket.SHUT_WR)
    one.recv(1)


def receive(mss: str) -> None:
    listener = opened(mss)
    listener.bind(("", PORT))
    listener.listen()
    one, _ = listener.accept()
    latencies, rest = [], b""
    while data := one.recv(1 << 16):
        now = time.time()
        rest += data
        whole = len(rest) // SIZE
        latencies += [now - struct.unpack_from("!d", rest, number * SIZE)[0] for number in range(whole)]
        rest = rest[whole * SIZE :]
    latencies.sort()
    count = len(latencies)
    print(json.dumps({"count": count, "mean": sum(latencies) / count, "p95": latencies[count * 95 // 100], "max": latencies[-1]}))


if __name__ == "__main__":
    {"send": send, "receive": receive}[sys.argv[1]](*sys.argv[2:])
