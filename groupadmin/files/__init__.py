"""Offset files: our JSON, CSV of kafka-consumer-groups, lines of ExportZkOffsets, and (read only) kafka-utils' JSON."""
