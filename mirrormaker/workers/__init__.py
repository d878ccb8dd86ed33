"""Workers: a mirror in several processes (`mirrormaker run --workers N`), each a member of the group, shown as one."""
