"""For how long a server wants to be left alone."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def retry_after(header: str | None) -> float:
    """Seconds that a `Retry-After` header asks for; 0 if there is none or it says nothing.

    Args:
        header: seconds, or a date.

    Source: RFC 9110, section 10.2.3.
    """
    text = (header or "").strip()
    if text.replace(".", "", 1).isdecimal() and text.isascii():
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max(0.0, (date - datetime.now(UTC)).total_seconds())
