"""Offset move: takes a stopped group from ZooKeeper to Kafka, or says what keeps it from that.

    python examples/move_offsets.py zk1:2181/kafka billing 3

3 is offsets.topic.replication.factor of the brokers.  Stop all members first; start them afterwards with
offsets.storage=kafka and dual.commit.enabled=false.  Run it again after an error: it goes on where it was.  The way
back: zkconsumer migrate rollback -z zk1:2181/kafka --plan billing.json --execute
"""

import subprocess
import sys
from pathlib import Path

if len(sys.argv) != 4:
    sys.exit(__doc__)
zookeeper, group, replicas = sys.argv[1:]
plan = Path(f"{group}.json")
steps = [
    ["plan", "--group", group],  # reads both stores
    ["check", "--offsets-replicas", replicas],  # obstacles: the topic of offsets, retention, offsets outside the log
    ["copy", "--execute"],  # each offset is read back
    ["verify"],
    ["cutover", "--execute"],  # from here on Kafka's offsets count; members of ours refuse to start on ZooKeeper alone
]
if plan.exists():  # an earlier run was interrupted; the journal beside the plan says where
    del steps[0]
for step, *options in steps:
    done = subprocess.run(["zkconsumer", "migrate", step, "-z", zookeeper, "--plan", plan, *options], check=False)
    if done.returncode == 3:
        sys.exit(f"{step}: refused; the table says what helps, and nothing of this step is written")
    if done.returncode != 0:
        sys.exit(f"{step}: not done (exit code {done.returncode})")
print(f"group {group} has its offsets in Kafka; keep {plan} and the files beside it for the way back")
