"""Handlers called in parallel.

handlers     process(), Outcome, Retry
workerpool   its threads or greenlets, and how they wait for each other
workqueue    decides which message a free worker takes next; pure
"""
