"""Fetching: from brokers to the queues of streams.

fetchers, fetcher    the fetcher of each source broker, and the leader of each partition
fetchplan, budget    what to fetch next, within the memory budget
shares               each partition's share of the budget
cursor, progress     delivery state of one owned partition, and which offsets may be committed
resets, positions    where a partition starts: auto.offset.reset and the listener; log ends
damage, search       damaged entries, and the next readable offset behind them
formatprobe          finds data in newer logs that our formats do not show
outages              brokers and leaders that cannot be reached
drain                lets delivered messages finish before a partition is revoked
"""
