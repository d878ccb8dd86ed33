"""Spark stage behind a load: decodes Avro values with from_avro, each message once.

    sparkpipeline run examples/avro_stage.yaml --conf spark.jars.packages=org.apache.spark:spark-avro_2.13:4.2.0

The load brings the topic to Parquet as it is; this stage takes each batch of it once and writes a column for each
field.  The rows: spark.read.parquet("/warehouse/orders-flow/stages/orders/data").  spark-avro 4.2 runs in Spark 4.3.
"""

import json
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.avro.functions import from_avro

SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "product", "type": "string"},
        {"name": "price", "type": ["null", "double"]},
    ],
}


def decoded(spark: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
    """The fields of each order, beside its partition and offset.

    A value that does not decode fails the stage, and its batch runs again once this is mended; with
    {"mode": "PERMISSIVE"} as options of from_avro it becomes nulls.  Values that a schema registry has framed begin
    with five more bytes: from_avro(expr("substring(value, 6)"), ..).
    """
    place = ("date", "hour", "partition", "offset")
    order = from_avro("value", json.dumps(SCHEMA)).alias("order")
    return inputs["kafka"].where("value IS NOT NULL").select(*place, order).select(*place, "order.*")
