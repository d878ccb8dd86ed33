"""Committed offsets: the stores, the commits of a member, and the modes of a group that moves between stores.

store                         the interface of all stores, and the four values of a committed offset
zookeeper, kafka, dual        stores of groups; group: the store of a member, whose mode may change
file, database, threaded      stores of fixed partitions
coordinator, asking           committed offsets requested from brokers
commits                       when and how a member commits
modes, modenode, modeswitch   ZooKeeper, both or Kafka: the rules, what members publish, the switch
former                        offsets of an earlier topic of the same name
migrationmarker               the node that a migration leaves for members
"""
