"""Mirror handler: what leaves for the other cluster is without test orders and without the customers' names.

    PYTHONPATH=examples mirrormaker check examples/mirror_handler.yaml
    PYTHONPATH=examples mirrormaker run examples/mirror_handler.yaml

What it raises, for a value that is no JSON, goes with its message to the topic of dead letters, as
handler.error.policy says; by default it would park the partition there.
"""

import json

from kafkawire.model import Message
from mirrormaker.handler import DROP, Drop


def without_names(message: Message) -> Message | Drop:
    """The message to send; DROP: none.  Returning None is an error: a forgotten return would empty the topic."""
    if message.value is None:  # a tombstone, which deletes its key at the target too
        return message
    order = json.loads(message.value)
    if order.get("test"):
        return DROP
    order.pop("customer", None)
    message.value = json.dumps(order).encode()
    return message
