"""Plans, manifests and files: the protocol by which a batch of output happens once."""
