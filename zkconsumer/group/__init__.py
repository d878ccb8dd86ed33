"""The group protocol: who is a member, who owns what, and the member that takes part in it."""
