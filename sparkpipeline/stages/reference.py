"""`python -m sparkpipeline.stages.reference`: the tables of all options of a pipeline, as markdown."""

from __future__ import annotations

from groundwork.options import reference
from sparkpipeline.stages.config import PipelineFile


def tables() -> str:
    """Those of the file, of each load and of each stage; one row an option."""
    return reference(PipelineFile, heading="####", older=None)


if __name__ == "__main__":
    print(tables(), end="")
