"""Audit of a mirror: compares both clusters message by message, and says of each topic what the target lacks.

    python examples/audit_mirror.py mirror.yaml 26h

mirror.yaml is the mirror's own file; 26h: messages of that time and newer.  The mirror may run meanwhile: what it has
not copied yet is lag and no loss.  Exit code 4 when messages are missing, 69 when a cluster is out of reach.
"""

import json
import subprocess
import sys
from collections import defaultdict

SOUND, MISSING, UNREACHABLE = 0, 4, 69  # exit codes of `mirrormaker verify` that come with a result

if len(sys.argv) != 3:
    sys.exit(__doc__)
file, since = sys.argv[1:]
command = ["mirrormaker", "verify", file, "--since", since, "-o", "json"]
done = subprocess.run(command, stdout=subprocess.PIPE, check=False)  # what goes wrong it says on stderr
if done.returncode not in (SOUND, MISSING, UNREACHABLE) or not done.stdout:
    sys.exit(done.returncode)
found = json.loads(done.stdout)
topics: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
for scope in found["scopes"]:  # a partition; or a topic as a whole, where keys choose other partitions at the target
    for column, name in enumerate(("source", "missing", "not_yet_mirrored")):
        topics[scope["topic"]][column] += scope[name]
for topic, (compared, missing, lag) in sorted(topics.items()):
    print(f"{topic}: {compared} messages compared, {missing} missing, {lag} not yet mirrored")
for one in found["differences"]:
    if one["difference"] == "missing":
        where = f"{one['topic']}/{one['partition']} at {one['first_offset']} to {one['last_offset']}"
        print(f"missing: {where}, {one['messages']} messages, the first with CRC-32 {one['value_crc']}")
sys.exit(done.returncode)
