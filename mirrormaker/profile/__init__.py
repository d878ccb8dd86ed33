"""Where a running mirror's time goes, and what its bottleneck is."""
