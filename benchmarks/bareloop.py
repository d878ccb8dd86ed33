"""The bare loop: what a mirror costs in Python that does nothing but receive and send.

    python bareloop.py SOURCE TARGET TOPIC PARTITIONS COUNT ACKS          (addresses as HOST:PORT)

One partition after the other: fetch 1 MiB, hop over the entries to the last whole one, produce them as they are, wait
for the response.  One connection a side, plain sockets, no group, no commits, no checksums, no retries, nothing in
flight while it waits: the measure that benchmarks/mirror.py has beside the daemon.  Only the standard library.
"""

import socket
import struct
import sys
import time

FETCH_BYTES = 1 << 20
CLIENT = b"\x00\x04bare"
SIZE = struct.Struct(">i")
FETCH, PRODUCE = 1, 0


def connected(address):
    host, port = address.rsplit(":", 1)
    opened = socket.create_connection((host, int(port)))
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return opened


def text(name):
    return struct.pack(">h", len(name)) + name


def answer(opened):
    """The bytes of the next response, behind its correlation id."""
    head = opened.recv(4, socket.MSG_WAITALL)
    data = bytearray(SIZE.unpack(head)[0])
    view = memoryview(data)
    while len(view):
        view = view[opened.recv_into(view) :]
    return memoryview(data)[4:]


def whole(entries):
    """Where the last whole entry ends, and the offset behind it; None: there is none."""
    at = end = 0
    behind, size_at = None, SIZE.unpack_from
    length = len(entries)
    while at + 12 <= length:
        following = at + 12 + size_at(entries, at + 8)[0]
        if following > length:
            break
        end, at = at, following
    if at:
        behind = struct.unpack_from(">q", entries, end)[0] + 1
    return at, behind


def main(source, target, topic, partitions, count, acks):
    reads, sends = connected(source), connected(target)
    name = text(topic.encode())
    offsets = [0] * partitions
    while sum(offsets) < count:
        before = sum(offsets)
        for partition in range(partitions):
            asked = (
                struct.pack(">iiii", -1, 100, 1, 1)
                + name
                + struct.pack(">iiqi", 1, partition, offsets[partition], FETCH_BYTES)
            )
            request = struct.pack(">hhi", FETCH, 0, partition) + CLIENT + asked
            reads.sendall(SIZE.pack(len(request)) + request)
            response = answer(reads)
            # topics, the name, partitions, then partition, error, high watermark, size
            at = 4 + len(name) + 4
            _, error, _, size = struct.unpack_from(">ihqi", response, at)
            if error:
                raise SystemExit(f"fetch of {topic}/{partition}: error {error}")
            entries = response[at + 18 : at + 18 + size]
            end, behind = whole(entries)
            if not end:
                continue
            request = struct.pack(">hhi", PRODUCE, 0, partition) + CLIENT
            request += struct.pack(">hii", acks, 10_000, 1) + name + struct.pack(">iii", 1, partition, end)
            sends.sendmsg([SIZE.pack(len(request) + end) + request])
            sends.sendall(entries[:end])
            response = answer(sends)
            _, error, _ = struct.unpack_from(">ihq", response, 4 + len(name) + 4)
            if error:
                raise SystemExit(f"produce to {topic}/{partition}: error {error}")
            offsets[partition] = behind
        if sum(offsets) == before:
            time.sleep(0.01)
    time.sleep(60)  # whoever measures it ends it


if __name__ == "__main__":
    source, target, topic, partitions, count, acks = sys.argv[1:]
    main(source, target, topic, int(partitions), int(count), int(acks))
