"""Groups that follow a mirror: it translates their offsets by its offset map, and writes them at the target."""
