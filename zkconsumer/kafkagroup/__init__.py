"""Member of a group on Kafka's own coordinator (0.9 and later), together with members of the Java consumer.

assignors.py    range, roundrobin and sticky, like the Java consumer's; pure
lifecycle.py    what a member does, and in which order (zkconsumer.member); pure
joinactions.py  executes that: join, sync, leave
requests.py     JoinGroup, SyncGroup, Heartbeat, LeaveGroup to the coordinator
heartbeats.py   heartbeats, the lease that they prove, the fence
offsets.py      commits with generation and member id
"""
