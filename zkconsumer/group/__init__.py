"""Group membership in ZooKeeper: registration, assignment, claims, rebalances.

membership, assignor       the members of a group and the assignment of partitions to them; pure
rebalance, memberstate, steps   the rebalance as a step machine; pure
executor, claims, groupreader, topicnodes   execute its actions in ZooKeeper
member                     the loop of events, steps and actions, and the audit
verify                     checks whether a group is healthy; pure
"""
