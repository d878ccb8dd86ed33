"""Group membership in ZooKeeper: registration, assignment, claims, rebalances.

membership, assignor       the members of a group and the assignment of partitions to them: pure
rebalance, memberstate, steps   the rebalance as a step machine: pure
executor, claims, groupreader, topicnodes   how its actions are executed in ZooKeeper
member                     the loop of events, steps and actions, and the audit
verify                     is a group healthy: pure
"""
