"""The key and the address of a server: no field keeps the key, no text shows a part of it, and the address holds no secret."""

from __future__ import annotations

import os
import re
from urllib.parse import urlsplit

LEAST = 8
"""Characters of a key in a row that are shown nowhere."""
NAME = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")


class ApiKey:
    """Names the environment variable that holds the key; a part takes the name as its argument `api_key_env`.

    The key is read from the environment when it is used.
    """

    def __init__(self, variable: str | None) -> None:
        """
        Args:
            variable: name of the environment variable; None: the server wants no key.

        Raises:
            ValueError: it is no name, or the variable is empty or not set.
        """
        if variable is not None and not NAME.fullmatch(variable):
            # somebody may have put the key itself here, so it is not repeated
            raise ValueError(
                "api_key_env is the name of the environment variable that holds the key, in capitals, such as OPENAI_API_KEY, and never "
                "the key itself; what was given is no such name"
            )
        self.variable = variable
        if variable is not None and not self.value():
            raise ValueError(
                f"the environment variable {variable}, named by api_key_env, holds no key: export {variable}=<your key>, or set "
                "api_key_env: null for a server that wants none"
            )

    def value(self) -> str | None:
        """The key that is sent; None if the server wants none. To be kept nowhere."""
        return None if self.variable is None else os.environ.get(self.variable, "").strip()

    def redact(self, text: str) -> str:
        """The text with the variable's name in place of the key, and of any `LEAST` characters in a row or more that are in the key.

        Args:
            text: of a server, or of an error, before anything is cut off: a cut may go through the key.
        """
        key = (self.value() or "").lower()
        least = min(LEAST, len(key))
        runs, lowered = {key[at : at + least] for at in range(len(key) - least + 1)}, text.lower()
        if not key or not any(run in lowered for run in runs):
            return text
        # places at which a run begins, and the rest of the last one
        shown = rf"(?:(?={'|'.join(map(re.escape, runs))}).)+.{{{least - 1}}}"
        return re.sub(shown, lambda _: f"${self.variable}", text, flags=re.DOTALL | re.IGNORECASE)


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
