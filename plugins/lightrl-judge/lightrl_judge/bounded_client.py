"""The HTTP client of a judge: it reads no answer that is larger than any judgement."""

from typing import Any

import openai

from lightrl_judge.failures import TooLargeError

LARGEST = 4 * 2**20
"""Bytes of an answer, unpacked: some ten times what the longest reasoning takes."""
UNPACKED = frozenset({"content-encoding", "content-length", "transfer-encoding"})
"""Headers that say how the answer was packed."""


class BoundedClient(openai.DefaultAsyncHttpxClient):
    """Reads answers piece by piece, and hangs up on those that are too large."""

    async def send(self, request: Any, *, stream: bool = False, **kwargs: Any) -> Any:
        """Send a request, and read the answer whatever `stream` says. TooLargeError: the answer has more than `LARGEST` bytes."""
        answer = await super().send(request, stream=True, **kwargs)
        body = bytearray()
        try:
            async for piece in answer.aiter_bytes():
                body += piece
                if len(body) > LARGEST:
                    raise TooLargeError(f"{request.url}: the answer has more than {LARGEST:,} bytes, which no judgement has")
        finally:
            await answer.aclose()
        headers = [(name, value) for name, value in answer.headers.multi_items() if name.lower() not in UNPACKED]
        return type(answer)(answer.status_code, headers=headers, content=bytes(body), request=request, extensions=answer.extensions)
