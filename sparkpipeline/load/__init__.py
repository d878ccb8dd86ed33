"""The load job: topics to Parquet, exactly once."""
