"""Member of a group that Kafka's own coordinator keeps (0.9 and later), beside members of the Java consumer.

assignors.py    range, roundrobin and sticky, as the Java consumer's; pure
lifecycle.py    what a member does, and in which order: join, sync, read, revoke, rejoin, leave; pure
requests.py     JoinGroup, SyncGroup, Heartbeat, LeaveGroup to the coordinator
heartbeats.py   heartbeats, the lease that they prove, the fence
executor.py     carries out what lifecycle decides
member.py       events in, actions out
offsets.py      commits with generation and member id
"""
