"""Plug-ins: a program's own encoders, partitioner and handlers, given as objects, by name, or by entry point.

    encoder         fn(value) -> bytes | None, or an object with to_bytes(value)
    partitioner     fn(key, partitions) -> index, or an object with partition(key, partitions)

A name is package.module:function, package.module:Class (created without arguments), or an entry point that an installed
package declares in the group "producer.encoders", "producer.partitioners" or "producer.handlers".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from groundwork.installed import entry_points
from groundwork.named import NotLoaded, load_named
from groundwork.sentences import counted
from kafkawire.columns import as_list, laid
from kafkawire.dialects import expected
from kafkawire.errors import LocalError
from kafkawire.kernels import ready
from kafkawire.keyhashes import FAILS, KEYLESS, KeyIndexes
from producer.config import ProducerConfig
from producer.encoders import as_bytes
from producer.errors import EncoderFailed, PartitionerFailed
from producer.handlers import HANDLERS, CallbackHandler, EventHandler
from producer.partitioners import default_of, is_pure, rule_of

Encoder = Callable[[Any], bytes | None]
Partitioner = Callable[[Any, int], int]
H = TypeVar("H", CallbackHandler, EventHandler)
MANY = 64  # keys; for fewer, the compiled loop costs more than it saves
DEFAULT = "default"  # partitioner.class: the one of kafka.version
ENCODERS, PARTITIONERS = "producer.encoders", "producer.partitioners"


class Plugins:
    """Plug-ins of one producer.  Raises LocalError, which names the option, for one that cannot be loaded."""

    def __init__(
        self,
        config: ProducerConfig,
        encoder: Encoder | None = None,
        key_encoder: Encoder | None = None,
        partitioner: Partitioner | None = None,
    ) -> None:
        self._encode = encoder or loaded("serializer.class", config.encoder, ENCODERS, "to_bytes")
        self._encode_key = key_encoder or (
            loaded("key.serializer.class", config.key_encoder, ENCODERS, "to_bytes")
            if config.key_encoder
            else self._encode
        )
        spoken = expected(config.version)
        if partitioner is not None and not config.knows_partitions:
            raise LocalError(
                f"a partitioner needs zookeeper.connect: with a broker list alone Kafka {spoken.release} has no "
                "partitions to choose from, and keys are ignored"
            )
        self._partition = partitioner or (
            default_of(spoken)
            if config.partitioner == DEFAULT
            else loaded("partitioner.class", config.partitioner, PARTITIONERS, "partition")
        )
        self._known: tuple[int, KeyIndexes] | None = None  # for one number of partitions
        self.takes_bytes = self._encode is as_bytes  # bytes are sent unchanged

    @property
    def encode(self) -> Encoder:
        """Return the encoder of values (serializer.class)."""
        return self._encode

    def encoded(self, topic: str, value: Any) -> bytes | None:
        return self._encoded(self._encode, "serializer.class", "value", topic, value)

    def encoded_key(self, topic: str, key: Any) -> bytes | None:
        return self._encoded(self._encode_key, "key.serializer.class", "key", topic, key)

    def encoded_all(self, topic: str, values: Sequence[Any]) -> Sequence[bytes | None]:
        """Return the encoded values; the same list when all are bytes already."""
        if self.takes_bytes and set(map(type, values)) <= {bytes}:
            return values
        return [self.encoded(topic, value) for value in values]

    def partitions_of(self, keys: Sequence[Any], partitions: int) -> list[int] | None:
        """Return the partition indexes of keys that are stored unchanged, KEYLESS for None.

        None: keys have to be encoded and partitioned one by one, in order: keys are not bytes, an encoder or a
        partitioner is the program's own (and not pure), or one of them fails.
        """
        if self._encode_key is not as_bytes or not set(map(type, keys)) <= {bytes, type(None)}:
            return None
        rule, quick = rule_of(self._partition), ready() if len(keys) >= MANY else None
        if rule is not None and quick is not None:
            columns = laid(quick, keys, [None] * len(keys), None, None)
            found = as_list(quick.indexes(columns, len(keys), rule, partitions, KEYLESS)[0])
            return None if FAILS in found else found
        if not is_pure(self._partition):
            return None
        if self._known is None or self._known[0] != partitions:
            self._known = partitions, KeyIndexes(self._partition, partitions, rule_of(self._partition))
        found = []
        try:
            self._known[1].add(keys, found)
        except Exception:  # a user's code may raise anything; it is reported when keys are partitioned one by one
            return None
        return found if all(type(index) is int and KEYLESS <= index < partitions for index in found) else None

    def partition_of(self, topic: str, key: Any, partitions: int) -> int:
        """Return the index of the partition of a key.  Raises PartitionerFailed."""
        try:
            index = self._partition(key, partitions)
        except Exception as exc:  # a user's code may raise anything
            raise PartitionerFailed(
                f"topic {topic}: partitioner.class raised {type(exc).__name__}: {exc}, for a key of type "
                f"{type(key).__name__}; nothing was sent"
            ) from exc
        if type(index) is not int or not 0 <= index < partitions:
            raise PartitionerFailed(
                f"topic {topic}: partitioner.class returned {index} for {counted(partitions, 'partition')}; valid "
                f"are 0 to {partitions - 1}, and nothing was sent"
            )
        return index

    def _encoded(self, encode: Encoder, option: str, what: str, topic: str, value: Any) -> bytes | None:
        try:
            data = encode(value)
        except Exception as exc:  # a user's code may raise anything
            raise EncoderFailed(
                f"topic {topic}: {option} raised {type(exc).__name__}: {exc}, for a {what} of type "
                f"{type(value).__name__}; nothing was sent"
            ) from exc
        if data is not None and not isinstance(data, bytes):
            raise EncoderFailed(
                f"topic {topic}: {option} returned a {type(data).__name__} for a {what}, not bytes or None; nothing "
                "was sent"
            )
        return data


def loaded_handler(option: str, named: str, kind: type[H], given: H | None, properties: Mapping[str, str]) -> H | None:
    """Return the given handler, or the one with a name, after init(); None without either.  Raises LocalError for one
    that cannot be loaded or is not of the class `kind`."""
    if given is None and named:
        given = _made(option, named, _found(option, named, HANDLERS))
        if not isinstance(given, kind):
            raise LocalError(f"{option} '{named}' is not a producer.handlers.{kind.__name__}")
    if given is not None:
        given.init(properties)
    return given


def loaded(option: str, named: str, group: str, method: str) -> Callable[..., Any]:
    """Return the function, or method of an object or class, that an option names.  Raises LocalError."""
    found = _made(option, named, _found(option, named, group))
    bound = getattr(found, method, found)
    if not callable(bound):
        raise LocalError(f"{option} '{named}': it is not callable and has no method {method}")
    return cast(Callable[..., Any], bound)


def _found(option: str, named: str, group: str) -> Any:
    try:
        return load_named(option, named) if ":" in named else _entry_point(option, named, group)
    except NotLoaded as exc:
        raise LocalError(str(exc)) from exc


def _made(option: str, named: str, found: Any) -> Any:
    """Return an instance of a class, created without arguments; any other object unchanged."""
    if not isinstance(found, type):
        return found
    try:
        return found()
    except Exception as exc:  # a user's class may raise anything
        raise LocalError(f"{option} '{named}': creating an instance raised {type(exc).__name__}: {exc}") from exc


def _entry_point(option: str, named: str, group: str) -> Any:
    there = entry_points(group)
    if named not in there.names:
        known = f"; known are {', '.join(sorted(there.names))}" if there.names else ""
        raise NotLoaded(
            f"{option} '{named}' is neither package.module:function nor an entry point of the group {group}{known}"
        )
    try:
        return there[named].load()
    except Exception as exc:  # importing a user's module may raise anything
        raise NotLoaded(f"{option} '{named}': loading it failed: {type(exc).__name__}: {exc}") from exc
