"""Whole mirrors by schedules.

schedule    what there is, and what may happen to it
copies      what the source holds and what the target got
promises    what must hold
run         one schedule, from its begin to its verdict
mutations   wrong decisions that have to be found, and the seeds that find them
proof       what shows that they do (test_mirror_schedules.py)

python -m tests.simulation.mirrors --schedules 1000
"""
