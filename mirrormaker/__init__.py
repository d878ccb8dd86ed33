"""The mirror daemon: copies topics from source clusters into a target cluster.

daemon      starts, runs and stops the flows; status, systemd, signals and reload are what an operator has of it
flow        one source into one target; routes and partitioning decide, handler is the user's function
source      one source cluster: a consumer        target, topics   the target cluster: a sender, and its topics
offsetmap   where messages went in the target: checkpoints, and resume: target-end
options, config   what a file says                probe, formats   clusters before anything is joined
"""
