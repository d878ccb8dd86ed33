"""Fetching: from brokers to the queues of streams.

fetchers, brokerfetcher      the fetcher of each source broker, and the leader of each partition (currentleaders)
fetchplan, inflight          what to fetch next; the requests that wait for a response
budget, shares               the memory budget, and each partition's share of it
partition, partitioncursor   life of one owned partition, decided and carried out
position                     the next offset to fetch of a partition
committable                  the offset of a partition that may be committed
resets, logbounds            where a partition starts: auto.offset.reset and the listener; log ends
resting                      partitions without news, fetched together
damage, search               damaged entries, and the next readable offset behind them
formatprobe                  finds data in newer logs that our formats do not show
outages                      brokers and leaders that cannot be reached
drain                        lets delivered messages finish before a partition is revoked
"""
