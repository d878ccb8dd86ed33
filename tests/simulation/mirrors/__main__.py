"""Simulate whole mirrors: one schedule after the other, until all are done or the first is broken.

python -m tests.simulation.mirrors --schedules 1000 --seed 1
python -m tests.simulation.mirrors --mode exactly-once --minutes 10
python -m tests.simulation.mirrors --seed 4711 --story                 one again, with everything that was said
python -m tests.simulation.mirrors --mutation "a name of MUTATIONS"    with a wrong decision patched in
"""

from __future__ import annotations

import sys

from tests.simulation import virtual

MODULE = "tests.simulation.mirrors"

if __name__ == "__main__":
    virtual.program(MODULE, sys.argv[1:])
    virtual.install()  # before any module of the project is imported
    virtual.settle()
    from tests.simulation.mirrors.commandline import main

    sys.exit(main(sys.argv[1:]))
