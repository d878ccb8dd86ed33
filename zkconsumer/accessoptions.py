"""Options of who we are to a ZooKeeper: groundwork.zkoptions, which producers and Spark's source have, too."""

from __future__ import annotations

from groundwork.zkoptions import (
    AccessFields,
    access_of,
    auth,
    ca,
    certificate,
    key,
    key_password,
    verify,
)

__all__ = ["AccessFields", "access_of", "auth", "ca", "certificate", "key", "key_password", "verify"]
