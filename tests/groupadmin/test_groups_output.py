"""What `zkconsumer groups describe` prints of a row."""

from __future__ import annotations

import io
import json

import pytest

from groundwork.output import write
from groupadmin.commands.groups import COLUMNS, partition_row
from groupadmin.commands.lag import total
from groupadmin.snapshot.groups import GroupRow
from kafkawire.model import BrokerPartition, PartitionId
from zkconsumer.offsets.store import NONE


@pytest.mark.parametrize(("partition", "shown"), [(3, 3), (BrokerPartition(1, 0), "1-0")])
def test_a_partition_is_a_number_where_it_is_one(partition: PartitionId, shown: object):
    out = io.StringIO()
    rows = [GroupRow("orders", partition, "g_host-0", 40, end=50), GroupRow("orders", partition, None, NONE, end=None)]
    write([partition_row(row) for row in rows], COLUMNS, "json", out)
    first, second = json.loads(out.getvalue())
    assert [first["partition"], second["partition"]] == [shown, shown]
    assert [first["lag"], second["committed"]] == [10, None]


def test_a_position_beyond_the_end_of_its_log_is_shown_below_zero_and_its_lag_is_unknown():
    beyond, behind = GroupRow("t", 0, None, 60, end=50), GroupRow("t", 1, None, 40, end=50)
    assert beyond.lag == -10
    assert total([beyond, behind]) == (10, 1)
    assert total([beyond]) == (None, 1)


def test_what_retention_deleted_is_no_lag_and_is_counted_beside_it():
    row = GroupRow("t", 0, None, 40, start=70, end=100)
    assert (row.lag, row.lost) == (30, 30)
    assert GroupRow("t", 0, None, 40, start=70, end=70).lag == 0
