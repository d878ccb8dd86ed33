"""Group rows of columns: rows for one partition are put side by side, in their original order.

    found = grouped(columns, end, groups_of_rows, 3)
    found.stretch(1)      rows of group 1, as kafkawire.columns.Part
    found.sizes[1]        bytes of their keys, values and headers

Positions are copied, not keys and values.  There are two implementations with the same results, pure Python and
compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from operator import itemgetter
from typing import TYPE_CHECKING

from kafkawire.columns import Column, Columns, Entries, Later, as_list, sorted_out
from kafkawire.columns import Part as Stretch
from kafkawire.kernels import ready
from kafkawire.keyhashes import QUICK, indexes_at

if TYPE_CHECKING:
    from kafkawire.formats.compiled import Kernels

MANY = 32  # rows; for fewer, the compiled loops cost more than they save


@dataclass(frozen=True, slots=True, eq=False)
class Grouped:
    """Columns ordered by group. firsts: the first row of each group, and at the end the number of rows."""

    columns: Columns
    firsts: Sequence[int]
    sizes: Sequence[int]

    def stretch(self, group: int) -> Stretch:
        return Stretch(self.columns, self.firsts[group], self.firsts[group + 1])


def grouped(columns: Columns, groups_of: Column, groups: int) -> Grouped:
    """Group the first len(groups_of) rows of columns.

    groups_of: the group of each row, a number below `groups`.
    """
    return grouped_by(ready() if len(groups_of) >= MANY else None, columns, groups_of, groups)


def grouped_by(kernels: Kernels | None, columns: Columns, groups_of: Column, groups: int) -> Grouped:
    """Group rows of columns with these kernels; None: in pure Python.  Entries that pure Python has separated are also
    grouped by it.

    Another thread may have loaded the kernels since then, and they cannot handle such entries.
    """
    if kernels is not None and columns.entries is None:
        order, firsts, sizes = kernels.grouped(columns, groups_of, groups)
        if _is_one(firsts):
            return Grouped(columns, firsts, sizes)
        return Grouped(_taken(columns, lambda column: kernels.taken(column, order)), firsts, sizes)
    if columns.entries is not None:
        return _by_entries(columns, columns.entries, groups_of, groups)
    rows = rows_by_group(groups_of, groups)
    order, firsts, weights = [], [0], []
    bytes_of = row_sizes(columns, len(groups_of))
    for one in rows:
        order += one
        firsts.append(len(order))
        weights.append(sum(bytes_of) if len(one) == len(bytes_of) else sum(map(bytes_of.__getitem__, one)))
    if _is_one(firsts):
        return Grouped(columns, firsts, weights)
    take = itemgetter(*order)
    return Grouped(_taken(columns, lambda column: list(take(as_list(column)))), firsts, weights)


def _by_entries(columns: Columns, entries: Entries, groups_of: Column, groups: int) -> Grouped:
    """Group rows whose entries are separated: the entries are reordered, and positions are computed when needed."""
    found = sorted_out(entries.all, groups_of, groups)
    firsts = list(accumulate(map(len, found), initial=0))
    sizes = [sum(map(len, one)) - entries.overhead * len(one) for one in found]
    if _is_one(firsts):
        return Grouped(columns, firsts, sizes)
    order = Later(firsts[-1], lambda: list(chain.from_iterable(rows_by_group(groups_of, groups))))
    taken = _taken(columns, lambda column: Later(firsts[-1], lambda: list(map(as_list(column).__getitem__, order))))
    taken = replace(taken, entries=Entries(list(chain.from_iterable(found)), entries.overhead))
    return Grouped(taken, firsts, sizes)


def rows_by_group(groups_of: Column, groups: int) -> list[list[int]]:
    """Return the row numbers of each group, in order. groups_of: the group of each row."""
    rows: list[list[int]] = [[] for _ in range(groups)]
    adds = [one.append for one in rows]
    for row, group in enumerate(as_list(groups_of)):
        adds[group](row)
    return rows


def _is_one(firsts: Sequence[int]) -> bool:
    """True if all rows are of one group, so that they are in order already."""
    return len(set(firsts)) <= 2


def indexes_of_keys(columns: Columns, end: int, rule: int, partitions: int, keyless: int) -> Sequence[int] | None:
    """Return the partition index of each key in the first rows, in pure Python, if the entries are separated: keys of
    one size are hashed together, and none is copied. keyless: index for a row without a key.

    Returns None if keys have to be hashed one by one.
    """
    cut = columns.entries
    if cut is None or not cut.alike or end < len(columns):
        return None
    by_shape: list[Sequence[int]] = []
    for data, same in cut.alike:
        if same.key_size > QUICK or not same.key_size or partitions > 256 or keyless < 0 > same.key_size:
            return None
        if same.key_size < 0:
            by_shape.append(bytes((keyless,)) * same.count)
            continue
        place = same.begin + same.key_at, same.key_size, same.step, same.count
        found = indexes_at(rule, data, *place, partitions)
        if found is None:
            return None
        by_shape.append(found)
    if cut.kinds is None:
        return by_shape[0]
    return bytes(map(next, map([iter(one) for one in by_shape].__getitem__, cut.kinds)))


def row_sizes(columns: Columns, end: int) -> list[int]:
    """Return the bytes of key, value and headers of each of the first rows."""
    keys, values = as_list(columns.key_size[:end]), as_list(columns.value_size[:end])
    sizes = [(key if key > 0 else 0) + (value if value > 0 else 0) for key, value in zip(keys, values, strict=True)]
    if columns.header_size is not None:
        headers = as_list(columns.header_size[:end])
        sizes = [size + max(more, 0) for size, more in zip(sizes, headers, strict=True)]
    return sizes


def _taken(columns: Columns, take: Callable[[Column], Column]) -> Columns:
    """Return columns of the rows that take() selects from each column."""

    def perhaps(column: Column | None) -> Column | None:
        return None if column is None else take(column)

    return replace(
        columns,
        offsets=take(columns.offsets),
        key_at=take(columns.key_at),
        key_size=take(columns.key_size),
        value_at=take(columns.value_at),
        value_size=take(columns.value_size),
        timestamps_ms=perhaps(columns.timestamps_ms),
        timestamp_types=perhaps(columns.timestamp_types),
        header_at=perhaps(columns.header_at),
        header_size=perhaps(columns.header_size),
    )
