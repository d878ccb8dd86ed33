"""Frames and message sets as JSON documents, for `python -m kafkawire decode`."""
