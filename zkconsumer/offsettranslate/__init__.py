"""What a mirror wrote down about where messages went, and a group's positions translated by it.  Text and decisions."""
