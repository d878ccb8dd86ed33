"""Fetching: from brokers to the queues of streams.

fetchers, fetcher    the fetcher of each source broker, and the leader of each partition
fetchplan, budget    what to ask for next, within the memory budget
shares               what each partition may take of it
cursor, progress     delivery state of one owned partition, and what may be committed
resets, positions    where a partition starts: auto.offset.reset and the listener; log ends
damage, search       damaged entries, and the next readable position behind them
formatprobe          what newer logs hold that our formats do not show
outages              brokers and leaders that cannot be reached
drain                what is delivered may be finished before a partition is revoked
"""
