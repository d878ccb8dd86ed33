"""How a session shows itself to ZooKeeper: groundwork.zkaccess, and the access list that is open to all."""

from __future__ import annotations

from kazoo.security import OPEN_ACL_UNSAFE

from groundwork.zkaccess import OPEN, Access, Tls, ZooKeeper, identity

__all__ = ["OPEN", "OPEN_ACL", "Access", "Tls", "ZooKeeper", "identity"]

OPEN_ACL = OPEN_ACL_UNSAFE
