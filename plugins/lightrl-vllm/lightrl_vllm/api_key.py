"""The key of a server: read from the environment when it is used, kept in no field, and cut out of every text."""

import os
import re

NAME = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")


class ApiKey:
    """Names the environment variable that holds the key."""

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
                "api_key_env is the name of the environment variable that holds the key, in capitals, such as VLLM_API_KEY, and never "
                "the key itself; what was given is no such name"
            )
        self.variable = variable
        if variable is not None and not self._secret():
            raise ValueError(
                f"the environment variable {variable}, named by api_key_env, holds no key: export {variable}=<your key>, or set "
                "api_key_env: null for a server that wants none"
            )

    @property
    def headers(self) -> dict[str, str]:
        """The headers that a request needs."""
        return {} if self.variable is None else {"Authorization": f"Bearer {self._secret()}"}

    @property
    def environment(self) -> dict[str, str]:
        """The environment that a server needs to want this key."""
        return {} if self.variable is None else {"VLLM_API_KEY": self._secret()}

    def redact(self, text: str) -> str:
        """The text with the key replaced by the variable's name."""
        secret = self._secret()
        return text.replace(secret, f"${self.variable}") if secret else text

    def _secret(self) -> str:
        return "" if self.variable is None else os.environ.get(self.variable, "").strip()
