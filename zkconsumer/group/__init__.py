"""Group membership in ZooKeeper: registration, assignment, claims, rebalances.

membership, assignor       the members of a group and the assignment of partitions to them; pure
rebalance                  what a member does, and in which order (zkconsumer.member); pure
claimactions, claims, groupreader, topicnodes   execute that in ZooKeeper
audit                      compares the member's state with ZooKeeper, since a watch may be missed
verify                     checks whether a group is healthy; pure
"""
