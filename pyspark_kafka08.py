"""Spark imports every top-level module named pyspark_* and takes its DefaultSource: so format("kafka08") needs no
registration where this is installed.  Light on purpose: it is imported at the first lookup of any format."""

from sparkpipeline.datasource import Kafka08DataSource as DefaultSource

__all__ = ["DefaultSource"]
