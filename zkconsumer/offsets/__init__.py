"""Where a group's positions are kept."""
