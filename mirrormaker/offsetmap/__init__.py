"""Where messages of the source went in the target: recorded while mirroring, and used to go on exactly there."""
