"""`python -m zkconsumer`: the console script `zkconsumer`, of consumer and admin tools together."""

import runpy

if __name__ == "__main__":
    # By name: the consumer does not import the package above it.
    runpy.run_module("groupadmin.commands.main", run_name="__main__")
