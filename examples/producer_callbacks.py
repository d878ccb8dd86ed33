"""Producer with delivery callbacks: sends lines of standard input, and says of each where it is stored, or why not.

    python examples/producer_callbacks.py broker1:9092,broker2:9092 orders < lines

A line "customer 7:3 apples" has the key "customer 7".  Exit code 1 when a line is not stored.
"""

import sys
from functools import partial

from kafkawire.errors import WireError
from producer import Delivery, Producer, SendFailed, Undeliverable


def report(line: int, delivery: Delivery) -> None:
    """Called once for each message, in a thread of the producer: quick, or it delays the next callbacks."""
    if delivery.error is not None:
        print(f"line {line}: {delivery.error}\n", end="", file=sys.stderr)  # one write: the main thread writes, too
    else:
        stored = delivery.result()
        print(f"line {line}: {stored.tp} at {stored.offset}")


if len(sys.argv) != 3:
    sys.exit(__doc__)
brokers, topic = sys.argv[1:]
options = {
    "metadata.broker.list": brokers,
    "request.required.acks": -1,  # a message is stored once all replicas in sync have it
    "queue.enqueue.timeout.ms": -1,  # send() waits while too many messages are not acknowledged
}
refused = 0
try:
    with Producer(options) as producer:  # its end sends what is queued, and waits for all callbacks
        for number, line in enumerate(sys.stdin.buffer, 1):
            before, colon, behind = line.rstrip(b"\n").partition(b":")
            key, value = (before, behind) if colon else (None, before)
            try:
                producer.send(topic, value, key, on_delivery=partial(report, number))
            except Undeliverable as why:  # too large: it was not sent, and others may be
                refused += 1
                print(f"line {number}: {why}\n", end="", file=sys.stderr)
except (SendFailed, WireError) as why:  # some messages have failed; or no broker answers, or the topic is unknown
    sys.exit(str(why))
sys.exit(1 if refused else 0)
