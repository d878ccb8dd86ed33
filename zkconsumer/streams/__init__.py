"""Streams: messages, batches and sets as a program reads them."""
