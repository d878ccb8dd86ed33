"""Two clusters, or a cluster and the files loaded from it, compared."""
