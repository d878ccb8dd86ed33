"""Profile of a running mirror: where its time goes, and what its bottleneck is."""
