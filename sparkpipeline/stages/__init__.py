"""An acyclic graph of restartable stages behind a load."""
