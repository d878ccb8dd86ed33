"""Offset map: which target offset each source offset got, recorded while mirroring; used to resume exactly there."""
