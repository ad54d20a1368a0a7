"""The ways in which a server fails."""


class ServerError(RuntimeError):
    """A server does not do what it is asked; the message names it, and says what to do."""

    def __init__(self, message: str, status: int | None = None) -> None:
        """
        Args:
            message: for the user.
            status: of HTTP, if the server has answered.
        """
        super().__init__(message)
        self.status = status


class UnavailableError(ServerError):
    """No answer this time: the same request may succeed later."""


def beginning(text: str, limit: int = 300) -> str:
    """The first line of a server's text, or its first characters.

    Args:
        text: of any length.
        limit: characters that are kept.
    """
    (line, *_) = text.strip().splitlines() or ["(nothing)"]
    return line if len(line) <= limit else f"{line[:limit]}..."
