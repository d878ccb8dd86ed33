"""Workers: post each message to a web service, many at a time, at least once.

    python examples/workers.py zk1:2181/kafka orders billing http://127.0.0.1:8080/bill

An offset is committed once its message and all before it are done, in whichever order the workers finish.  After a
crash what was posted and not committed is posted again, with the same Idempotency-Key.
"""

import signal
import sys
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from kafkawire.model import Message
from zkconsumer import ConsumerConnector, ConsumerError, Outcome, Retry, process


def post(message: Message) -> Outcome | Retry:
    where = f"{message.topic}/{message.partition}/{message.offset}"
    try:
        with urlopen(Request(url, message.value or b"", {"Idempotency-Key": where}), timeout=10):
            return Outcome.DONE
    except HTTPError as refused:
        if refused.code == 429:  # too many requests
            return Retry(after_ms=int(refused.headers.get("Retry-After", "1")) * 1000)
        if refused.code < 500:  # no retry helps: this partition waits here for an operator, the others go on
            print(f"{where}: {refused}", file=sys.stderr)
            return Outcome.PARK
        raise  # as any other exception, a lost connection too: called again after a backoff


if len(sys.argv) != 5:
    sys.exit(__doc__)
zookeeper, topic, group, url = sys.argv[1:]
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: sys.exit())
options = {"zookeeper.connect": zookeeper, "group.id": group, "auto.offset.reset": "smallest", "delivery": "on-ack"}
try:
    process(ConsumerConnector(options), post, {topic: 1}, workers=16)
except ConsumerError as why:
    sys.exit(f"group {group}: {why}")
