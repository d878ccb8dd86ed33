"""ZooKeeper session of a connector.

zksession   connects, keeps the session and its lease alive, fences
lease       how long the session, and with it our claims, is certainly valid; pure
zkcalls     typed, pipelined reads and writes of nodes; nodes: thousands of them in bulk
"""
