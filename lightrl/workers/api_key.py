"""The key of a server: read from the environment when it is used, kept in no field, and cut out of every text."""

from __future__ import annotations

import os
import re

NAME = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")


class ApiKey:
    """Names the environment variable that holds the key; a part takes the name as its argument `api_key_env`."""

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
        """The text with the key replaced by the variable's name.

        Args:
            text: of a server, or of an error.
        """
        key = self.value()
        return text.replace(key, f"${self.variable}") if key else text
