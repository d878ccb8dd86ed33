"""The columns: those of Spark's kafka format, and any of them alone."""

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from sparkpipeline.errors import OptionRefused
from sparkpipeline.reading.arrow import schema as arrow_schema
from sparkpipeline.source.schema import (
    BY_BROKER,
    COLUMNS,
    COUNTED,
    HEADERS,
    columns_by_default,
    columns_of,
    struct_type,
)

TYPES = {"binary": BinaryType(), "string": StringType(), "int": IntegerType(), "bigint": LongType(),
         "timestamp": TimestampType()}  # fmt: skip
HEADER = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


def struct(*names, **changed):
    kinds = (
        {name: TYPES[kind] for name, kind in {**COLUMNS, **BY_BROKER, **COUNTED}.items()}
        | {"headers": HEADER}
        | changed
    )
    return StructType([StructField(name, kinds[name]) for name in names])


def test_the_columns_are_those_of_sparks_kafka_format():
    text = (
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
    )
    assert struct_type(text) == struct_type(columns_by_default(False, False)) == struct(*COLUMNS)
    assert struct_type(columns_by_default(True, False)) == struct(*COLUMNS, *HEADERS)


def test_batches_have_exactly_the_types_that_spark_makes_of_the_schema():
    names = (*COLUMNS, *BY_BROKER, *HEADERS, *COUNTED)
    expected = to_arrow_schema(struct(*names), timezone="UTC")
    for name in names:
        assert arrow_schema((name,)).field(0).equals(expected.field(name)), name
        assert expected.field(name).nullable


def test_partitions_of_brokers_have_two_columns_more():
    assert struct_type(columns_by_default(False, True)) == struct(*COLUMNS, *BY_BROKER)
    assert columns_of(struct("innerIndex", "value"), False, False, True) == ("innerIndex", "value")
    with pytest.raises(OptionRefused, match=r"innerIndex needs protocol=0\.7"):
        columns_of(struct("innerIndex", "value"), False, False)


def test_fewer_columns_may_be_asked_for_in_any_order():
    assert columns_of(struct("value", "offset"), False, False) == ("value", "offset")
    assert columns_of(struct(*COLUMNS, "headers"), True, False) == (*COLUMNS, "headers")
    assert columns_of(struct("rowNumber", "valueCrc", "key"), False, True) == ("rowNumber", "valueCrc", "key")


def test_what_is_no_column_of_ours_is_refused():
    def refused(schema, says):
        with pytest.raises(OptionRefused, match=says):
            columns_of(schema, False, False)

    refused(
        StructType([StructField("body", BinaryType())]), "option=schema: the source has no column 'body', it has key"
    )
    refused(StructType([StructField("Value", BinaryType())]), "no column 'Value'")
    refused(struct("offset", offset=IntegerType()), "column 'offset' is bigint, not int: cast it")
    refused(struct("headers"), "headers need includeHeaders=true")
    refused(struct("rowNumber"), "rowNumber needs offsetRanges")
    refused(struct("key", "key"), "names each column once")
    refused(StructType([]), "names each column once")
    refused(StructType([StructField("key", BinaryType(), nullable=False)]), "NOT NULL is not promised")
