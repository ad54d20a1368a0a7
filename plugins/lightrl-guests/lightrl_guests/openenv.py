"""Servers of OpenEnv as environments."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from lightrl import AsyncEnvironment, Prompt, Reply, own_opening, required_package, without_thoughts
from lightrl_guests.openenv_session import JSON, OpenEnvError, RefusedAction, Session, read_page
from lightrl_guests.openings import Said, continued, in_chat

COMPLETION = "completion"
METADATA = "metadata"
"""A field that every observation of `openenv` 0.10 has, and that older servers kept to themselves."""
PLACE = re.compile(r"\{(\w+)\}")
"""Where a template has a value, by its name."""


class OpenEnv(AsyncEnvironment):
    """An environment behind a server of OpenEnv; each episode is a session of its own.

    `reset` gets the seed of the episode, and what it observes continues the prompt. Each turn of the policy becomes an action, and the
    policy reads the observation. Rewards and the end are the server's. An action that the server finds badly formed is answered
    by a message and counted as `refused_actions`; anything else that goes wrong fails the episode.

    Source: OpenEnv, `openenv` 0.10.0 and `openenv-core` 0.3.0, messages of `/ws`.
    """

    gives_rewards = True

    def __init__(
        self,
        url: str,
        action: dict[str, Any],
        observation: str | None = None,
        reset: dict[str, Any] | None = None,
        chat: bool = True,
        **kwargs: Any,
    ) -> None:
        """
        Args:
            url: of the server, `http://127.0.0.1:8000`.
            action: its fields, in which `{completion}` stands for the turn of the policy without its thoughts: `{message: "{completion}"}`.
            observation: the text that the policy reads, with fields of the observation: `"{board} Your move?"`; null: the observation
                as JSON, but for its `metadata`.
            reset: what `reset` gets beside the seed; `{NAME}` stands for a column of the data.
            chat: a prompt without a text, as those of `EpisodeSeeds`, becomes a message of the user; false leaves it a text, for
                policies without a chat template.
            **kwargs: the arguments of `AsyncEnvironment`.

        Raises:
            ValueError: an argument outside its range, a url that is none, or an action without `{completion}`.
        """
        super().__init__(**kwargs)
        required_package("websockets", "lightrl-guests", "OpenEnv")
        if not re.match(r"https?://[^/]", url):
            raise ValueError(f"OpenEnv needs the url of a server, such as http://127.0.0.1:8000; got {url!r}")
        if COMPLETION not in names_in(action):
            raise ValueError(f'OpenEnv needs an action with {{completion}} in it, such as {{message: "{{completion}}"}}; got {action!r}')
        self.url, self.action, self.observation, self.chat = url.rstrip("/"), dict(action), observation, chat
        self.reset = dict(reset or {})
        self._session = Session(self.url)

    def check(self, columns: frozenset[str]) -> None:
        """Refuse a server that does not answer, an action that it does not take, and columns that the data does not have."""
        if missing := sorted(names_in(self.reset) - columns):
            raise ValueError(f"`reset` of OpenEnv asks for {', '.join(missing)}, which the data does not have; it has {_list(columns)}")
        try:
            schema = read_page(self.url, "/schema", self.timeout_s).get("action")
        except OpenEnvError as error:
            raise ValueError(str(error)) from error
        takes, needs = (schema.get("properties"), schema.get("required", ())) if isinstance(schema, dict) else (None, ())
        if isinstance(takes, dict) and (set(self.action) - set(takes) or set(needs) - set(self.action)):
            raise ValueError(
                f"the action of OpenEnv has {_list(self.action)}, and {self.url} takes {_list(takes)}, of which it needs {_list(needs)}"
            )

    async def begin(self, prompt: Prompt, seed: int) -> Said:
        observed = await self._session.reset({"seed": seed, **filled(self.reset, prompt.columns)})
        if observed.done:
            raise OpenEnvError(f"{self.url} has begun an episode that is over, before the policy has said anything")
        return continued(own_opening(in_chat(prompt) if self.chat else prompt), self._shown(observed.observation))

    async def reply(self, completion: str) -> Reply:
        try:
            observed = await self._session.step(filled(self.action, {COMPLETION: without_thoughts(completion).strip()}))
        except RefusedAction as error:
            return Reply(f"Error: {error}", counts={"refused_actions": 1.0})
        return Reply(self._shown(observed.observation), observed.reward, observed.done, state={"observation": observed.observation})

    async def end(self) -> None:
        await self._session.close()

    def _shown(self, observation: Mapping[str, JSON]) -> str:
        if self.observation is None:
            return json.dumps({name: value for name, value in observation.items() if name != METADATA}, ensure_ascii=False)
        if missing := sorted(names_in(self.observation) - set(observation)):
            raise OpenEnvError(f"the observation of {self.url} has no {', '.join(missing)}; it has {_list(observation)}")
        return _inserted(self.observation, observation)


def names_in(template: JSON) -> set[str]:
    """The names that a template asks for."""
    if isinstance(template, str):
        return set(PLACE.findall(template))
    members = template.values() if isinstance(template, dict) else template if isinstance(template, list) else ()
    return {name for member in members for name in names_in(member)}


def filled(template: Mapping[str, JSON], values: Mapping[str, JSON]) -> dict[str, JSON]:
    """A template with values in their places; a text that is one place and nothing else becomes the value itself."""
    return {key: _filled(member, values) for key, member in template.items()}


def _filled(template: JSON, values: Mapping[str, JSON]) -> JSON:
    if isinstance(template, dict):
        return filled(template, values)
    if isinstance(template, list):
        return [_filled(member, values) for member in template]
    if not isinstance(template, str):
        return template
    if whole := PLACE.fullmatch(template):
        return values[whole[1]]
    return _inserted(template, values)


def _inserted(template: str, values: Mapping[str, JSON]) -> str:
    texts = {name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for name, value in values.items()}
    return PLACE.sub(lambda found: texts[found[1]], template)


def _list(names: Iterable[object]) -> str:
    return ", ".join(map(str, names)) or "none"
