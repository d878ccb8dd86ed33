"""One member of a group, of either kind: in ZooKeeper (zkconsumer.group) or on Kafka's coordinator (.kafkagroup).

steps       actions, reports, happenings and phases: the words between a machine and its executor; pure
machine     one step of a member, by the rules of its kind of group; pure
executor    runs the actions, with the actions that only one kind of group has behind an interface
member      the loop: events in, actions out
ownership   owned partitions: their cursors, from the committed offset to the last commit
history     topics over time: which are new, absent or deleted
"""
