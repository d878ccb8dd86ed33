"""Options of a consumer.

config        ConsumerConfig: each option once, and the rules between them
arguments     partitions, positions, times and durations as an operator types them
"""
