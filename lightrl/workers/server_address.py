"""The address of a server, which configs and logs repeat."""

from __future__ import annotations

from urllib.parse import urlsplit


def server_address(address: str, argument: str, example: str) -> str:
    """An address, once it is found to be one and to hold no secret.

    Args:
        address: of a server.
        argument: of the part that was given it, for errors.
        example: of an address.

    Raises:
        ValueError: it is no address, or has a user, a password or a query.
    """
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{argument} must be like {example}, got {address!r}")
    if parts.username or parts.password or parts.query:
        raise ValueError(
            f"{argument} must hold no user, password or query: configs and logs repeat it. A key stands in api_key_env's variable"
        )
    return address
