"""The harness that plays an agent of `verifiers` by the turns of a policy; verifiers imports it by its name, from the top."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import verifiers.v1 as vf
from aiohttp import ClientSession

__all__ = ["TurnHarness"]


class TurnHarness(vf.Harness[vf.HarnessConfig]):
    """Asks the model once for each turn of the user, in this process; the policy has no tools."""

    APPENDS_SYSTEM_PROMPT: ClassVar[bool] = True
    SUPPORTS_RESUME: ClassVar[bool] = True
    EXECUTES_CODE: ClassVar[bool] = False
    NEEDS_CONTAINER: ClassVar[bool] = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """Send the conversation so far, and leave the answer in the trace."""
        system, prompt = self.resolve_prompt(data)
        said = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else [_message(message) for message in prompt or []]
        opening = [] if system is None else [{"role": "system", "content": system}]
        body = {"model": ctx.model, "messages": [*opening, *said]}
        headers = {"Authorization": f"Bearer {secret}"}
        # the turn of a policy takes as long as it takes: limits on time are those of the call of its environment
        async with (
            ClientSession(timeout=None) as session,
            session.post(f"{endpoint}/chat/completions", json=body, headers=headers) as answer,
        ):
            text = await answer.text()
        return vf.ProgramResult(exit_code=int(answer.status != 200), stdout="", stderr="" if answer.status == 200 else text)


def _message(message: Any) -> dict[str, Any]:
    sent: dict[str, Any] = json.loads(message.model_dump_json(include={"role", "content"}))
    return sent
