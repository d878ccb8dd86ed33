"""Whole mirrors by schedules.

schedule    what there is, and what may happen to it
copies      what the source holds and what the target got
promises    what must hold
run         one schedule, from its begin to its verdict
mutations   wrong decisions that have to be found

python -m tests.simulation.mirrors --schedules 1000
"""
