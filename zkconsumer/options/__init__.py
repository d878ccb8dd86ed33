"""Options of a consumer.

config        ConsumerConfig: each option once, and the rules between them
optiontypes   from a file's value to an option's value, or why not
arguments     partitions, positions, times and durations as an operator types them
"""
