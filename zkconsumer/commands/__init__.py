"""Commands of the consumer: consume, topics, brokers; and code shared by all commands of `zkconsumer`.

options, zkconfig, common      shared options, --zk-config, connections and exit codes
consume, console, partition    `zkconsumer consume`: in a group, or of one partition
cluster                        `zkconsumer topics` and `zkconsumer brokers`
"""
