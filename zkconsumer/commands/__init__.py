"""The program `zkconsumer`: its own commands, consume, topics and brokers; and code shared by all of its commands.

cli, main                      the program: which commands there are, and the console script.  Those of groups and
                               offsets (groups, offsets, lag, verify-rebalance, migrate) are in groupadmin/commands:
                               the program loads them by name when they are called for, for the consumer never imports
                               the package above it
options, zkconfig, common      shared options, --zk-config, connections and exit codes
consume, console, partition    `zkconsumer consume`: in a group, or of one partition
cluster                        `zkconsumer topics` and `zkconsumer brokers`
"""
