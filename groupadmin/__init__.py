"""Consumer groups and their offsets, looked at and changed: the tools of operators.

snapshot     what ZooKeeper and Kafka hold of groups at one moment: values, and how they are read
plan         what is to be written, decided from a snapshot: pure
apply        a plan written to the stores and read back, and the file that undoes it
files        offsets of groups in files
translation  committed offsets of a mirror's source as offsets of its target
migrate      groups off ZooKeeper and back: states, checks, journal, steps
commands     `zkconsumer groups | offsets | lag | migrate ..`, and Kafka's own spellings of them
"""
