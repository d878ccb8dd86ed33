"""Admin tools for consumer groups and their offsets: reading and changing them.

snapshot     reading of groups in ZooKeeper and Kafka at one moment
plan         the changes to make, decided from a snapshot: pure
apply        writing a plan to the stores and reading it back, and the undo file
files        offsets of groups in files
translation  committed offsets of a mirror's source as offsets of its target
migrate      groups from ZooKeeper to Kafka and back: rules, journal, runner of the steps
commands     `zkconsumer groups | offsets | lag | migrate ..`, and replacements of Kafka's own tools
"""
