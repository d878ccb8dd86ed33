"""Data pipeline on Spark: source, sink, exactly-once loads, stages, backfill, audit."""
