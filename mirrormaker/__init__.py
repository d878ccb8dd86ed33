"""Mirror daemon: copies topics from source clusters into a target cluster.

daemon      starts, runs and stops the flows; status, systemd, signals and reload are its operator interface
flow        copies one source into one target; routes and partitioning decide how, handler is the user's function
source      one source cluster, read by a consumer     target, topics   the target cluster: its senders and its topics
offsetmap   which target offset each message got: checkpoints, and resume: target-end
options, config   the settings of a configuration file      probe, formats   check the clusters before a group is joined
"""
