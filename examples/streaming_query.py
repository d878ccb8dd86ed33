"""Streaming query: topic to Parquet, in micro-batches that go on from a checkpoint.

    python examples/streaming_query.py broker1:9092,broker2:9092 orders /data/orders
    python examples/streaming_query.py broker1:9092,broker2:9092 orders /data/orders once

With "once" it reads what there is and ends; without, it runs until it is killed.  Either way the next start goes on
behind the last batch that was committed.  spark.read.parquet("/data/orders/rows") has each message once.  Readers
other than Spark may see files of a batch that a crash cut off: for them use `sparkpipeline load`.
"""

import sys

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

if len(sys.argv) != 4 and sys.argv[4:] != ["once"]:
    sys.exit(__doc__)
brokers, topic, folder = sys.argv[1:4]
pace = {"availableNow": True} if sys.argv[4:] else {"processingTime": "10 seconds"}
spark = SparkSession.builder.appName(topic).config("spark.sql.session.timeZone", "UTC").getOrCreate()
orders = (
    spark.readStream.format("kafka08")
    .option("kafka.bootstrap.servers", brokers)
    .option("subscribe", topic)
    .option("startingOffsets", "earliest")  # of the first start; from then on the checkpoint counts
    .option("maxOffsetsPerTrigger", 1_000_000)
    .load()
)
query = (
    orders.selectExpr("partition", "offset", "CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value")
    .writeStream.format("parquet")
    .option("path", f"{folder}/rows")
    .option("checkpointLocation", f"{folder}/checkpoint")
    .trigger(**pace)
    .start()
)
try:
    query.awaitTermination()
except PySparkException as why:  # KAFKA08_DATA_LOSS: messages were deleted before they were read, and others
    sys.exit(str(why))
