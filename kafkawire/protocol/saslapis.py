"""Tables of requests and replies for logins (KIP-43, KIP-152, KIP-368).

After SaslHandshake v1 the mechanism's messages are sent in SaslAuthenticate; after v0 (0.10) they are sent bare, each
after its size as int32.  0.9 has no handshake: its only mechanism, GSSAPI, begins at once.
"""

from __future__ import annotations

from kafkawire.protocol.api import Api
from kafkawire.protocol.schema import Array, Struct, blob, int16, int64, nullable_string, since, string

SASL_HANDSHAKE = Api(
    17,
    "SaslHandshake",
    1,
    request=Struct(mechanism=string),
    reply=Struct(error=int16, mechanisms=Array(string)),  # mechanisms of the broker
)
SASL_AUTHENTICATE = Api(
    36,
    "SaslAuthenticate",
    1,
    request=Struct(auth_bytes=blob),
    reply=Struct(
        error=int16,
        error_message=nullable_string,
        auth_bytes=blob,
        session_lifetime_ms=since(1, int64),  # then the broker closes the connection, unless we log in again; 0: never
    ),
)
