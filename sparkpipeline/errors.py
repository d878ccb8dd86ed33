"""Errors, each with a stable code before its message.

An exception of a Python data source reaches the user as text only (Spark wraps it), so code and coordinates are in the
message: "KAFKA08_OFFSET_OUT_OF_RANGE topic=orders partition=3 requested=17 earliest=40 latest=90 broker=b1:9092: ...".
code_in(text) finds the code, and EXIT_OF has the exit status of a command (groundwork.output.EXIT).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, TypeVar

if TYPE_CHECKING:
    from groundwork.options import OptionError

_CODE = re.compile(r"\bKAFKA08_[A-Z_]+\b")


class PipelineError(Exception):
    """Base class of errors. coordinates: name=value pairs between the code and the message, in the order given; None is
    left out."""

    code: ClassVar[str] = "KAFKA08_FAILED"
    exit: ClassVar[str] = "runtime"

    def __init__(self, sentence: str, **coordinates: object) -> None:
        self.sentence = sentence
        self.coordinates = {name: value for name, value in coordinates.items() if value is not None}
        where = "".join(f" {name}={value}" for name, value in self.coordinates.items())
        super().__init__(f"{self.code}{where}: {sentence}")


class OptionRefused(PipelineError):
    """An option, a file or a schema is invalid."""

    code = "KAFKA08_OPTION"
    exit = "usage"

    @classmethod
    def of(cls, error: OptionError) -> OptionRefused:
        """Return the problems of a set of options as one error."""
        return cls("; ".join(error.problems))

    @property
    def problem(self) -> str:
        """Return the error as Options.problems() says it, the name of the option in front."""
        return (
            f"option '{self.coordinates['option']}' {self.sentence}" if "option" in self.coordinates else self.sentence
        )


class Unreachable(PipelineError):
    """No broker of the cluster (or its ZooKeeper) answers."""

    code = "KAFKA08_UNREACHABLE"


class UnknownPartition(PipelineError):
    """A topic or partition that the cluster does not have."""

    code = "KAFKA08_UNKNOWN_PARTITION"
    exit = "not found"


class NoLeader(PipelineError):
    """A partition without a leader, longer than the retries last."""

    code = "KAFKA08_NO_LEADER"


class OffsetOutOfRange(PipelineError):
    """The log does not have an offset (any more, or yet)."""

    code = "KAFKA08_OFFSET_OUT_OF_RANGE"
    exit = "refused"


class DataLoss(PipelineError):
    """Messages to be read are gone: Spark's KAFKA_DATA_LOSS, under our own name."""

    code = "KAFKA08_DATA_LOSS"
    exit = "refused"


class CorruptData(PipelineError):
    """Bytes do not make a message, or have a wrong checksum.  position: of the first one in a broker's response."""

    code = "KAFKA08_CORRUPT"
    position: int | None = None


class MessageTooLarge(PipelineError):
    """A message that does not fit the largest fetch that is allowed, or that a target refuses for its size."""

    code = "KAFKA08_MESSAGE_TOO_LARGE"


class CodecMissing(PipelineError):
    """A codec whose library is not installed where a task runs."""

    code = "KAFKA08_CODEC_MISSING"


class NoTimestamp(PipelineError):
    """A time to start at for which the cluster knows no offset."""

    code = "KAFKA08_NO_OFFSET_FOR_TIME"
    exit = "refused"


class NotDelivered(PipelineError):
    """Rows were not delivered to a target."""

    code = "KAFKA08_NOT_DELIVERED"


class Refused(PipelineError):
    """The state of a job, ledger or group does not allow an action now."""

    code = "KAFKA08_REFUSED"
    exit = "refused"


class Mismatch(PipelineError):
    """Two counts of the same thing differ."""

    code = "KAFKA08_MISMATCH"
    exit = "partly"


class Missing(PipelineError):
    """A file does not exist."""

    code = "KAFKA08_NO_FILE"
    exit = "not found"


class StorageFailed(PipelineError):
    """A file system that refuses or does not answer."""

    code = "KAFKA08_STORAGE"


class LedgerDamaged(PipelineError):
    """A file of a ledger is torn, foreign or contradicts another one."""

    code = "KAFKA08_LEDGER_DAMAGED"


class StageFailed(PipelineError):
    """A stage of a pipeline whose query or function fails."""

    code = "KAFKA08_STAGE_FAILED"


P = ParamSpec("P")
R = TypeVar("R")


def coded(function: Callable[P, R]) -> Callable[P, R]:
    """Make every exception of a function begin with a code, because Spark passes only the text to its user.

    This includes exceptions raised while iterating a generator function.  PySpark's own are unchanged."""

    def told(exc: Exception) -> Exception:
        if isinstance(exc, PipelineError) or type(exc).__module__.partition(".")[0] == "pyspark":
            return exc
        return PipelineError(f"{type(exc).__name__}: {exc}")

    def within(found: Generator[Any, None, None]) -> Generator[Any, None, None]:
        try:
            yield from found
        except Exception as exc:
            raise told(exc) from exc

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            found = function(*args, **kwargs)
        except Exception as exc:
            raise told(exc) from exc
        return within(found) if isinstance(found, Generator) else found  # type: ignore[return-value]

    return call


_KINDS: list[type[PipelineError]] = [PipelineError, *PipelineError.__subclasses__()]
KINDS = {kind.code: kind for kind in _KINDS}
EXIT_OF = {code: kind.exit for code, kind in KINDS.items()}  # names in groundwork.output.EXIT


def code_in(text: str) -> str | None:
    """Return our first code in Spark's text of an exception; None if there is none."""
    found = _CODE.search(text)
    return found[0] if found is not None and found[0] in EXIT_OF else None


def sentence_in(text: str) -> str | None:
    """Return our line in Spark's text of an exception, beginning with its code; None if there is none."""
    code = code_in(text)
    if code is None:
        return None
    return text[text.index(code) :].splitlines()[0].rstrip()
