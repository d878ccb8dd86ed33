"""`python -m zkconsumer`: the console script `zkconsumer`, with the consumer and admin tools."""

import runpy

if __name__ == "__main__":
    # By name: the consumer must not import the package above it.
    runpy.run_module("groupadmin.commands.main", run_name="__main__")
