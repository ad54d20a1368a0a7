"""Tools: typed Python functions that the policy may call in its turns."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

from lightrl import Environment, Prompt, Reply, own_opening
from lightrl_code.tools.call_formats import AUTO, FORMATS, calls_in, looks_like_call
from lightrl_code.tools.tool_arguments import WrongArguments, named_arguments, typed_arguments
from lightrl_code.tools.tool_calls import JSON, ToolCall
from lightrl_code.tools.tool_function import ToolFunction, constructor_arguments, schema_of, tool_functions
from lightrl_code.tools.tool_run import ToolResult, error_result, run_tool

Message = dict[str, str]
Said = str | Sequence[Message]
"""A text, or messages of a conversation."""

RESULT = "{result}"
GIVEN = ("prompt", "seed")
"""A stateful class may ask for these by name, and for every column of the data."""


class ToolEnvironment(Environment):
    """Lets the policy call Python functions, and tells it their results; a turn without a call ends the episode.

    A turn may have several calls, which are answered in order. The policy gets a text that says what failed: a call that cannot be read,
    an unknown tool, wrong arguments, an exception, a time limit. Only functions that the config names are called, with arguments of
    the types they declare; no text of the policy is executed. Counts are `tools/NAME/calls` and `tools/NAME/errors`,
    `tools/invalid_calls` of those that name no tool, and `tools/unread_calls`: turns that end the episode and look like a call all the
    same. `state` has `calls`: a list of `name`, `arguments`, `result` and `failed`.
    """

    author = "tool"
    awaits: ClassVar[bool] = False
    """Tools may be async; a subclass that sets it awaits them in `_bound`."""

    def __init__(
        self,
        tools: list[str],
        call_format: str = AUTO,
        role: Literal["tool", "user"] = "tool",
        describe: bool = False,
        response: str = "\n<tool_response>\n{result}\n</tool_response>\n",
        tool_timeout_s: float = 5.0,
        max_calls: int = 16,
        max_result_chars: int = 4096,
        **kwargs: Any,
    ) -> None:
        """
        Args:
            tools: import paths of functions with types and docstrings, as transformers wants them. Of a class every public method is a
                tool, and each episode has an instance of its own; its constructor may ask for `seed`, `prompt` and columns by name.
            call_format: how the policy writes calls: `hermes` (also Qwen), `llama`, `mistral`, `deepseek` (`deepseek_dsml` from V3.2 on),
                `qwen_coder`, `glm`, `kimi`, `harmony` (gpt-oss), `gemma`, `minimax` or `python` (`[add(a=1, b=2)]`). `auto`: each turn
                tells, with any of them but `python` without its marks.
            role: in a conversation, whose messages results are: `tool`, one for each result, or `user` for chat templates that know
                no tools, one for all.
            describe: the prompt begins with a description of the tools, for plain text and for chat templates that know no tools.
            response: the text around a result where there are no messages of tools; `{result}` stands for it, `{name}` for the tool.
            tool_timeout_s: wall-clock seconds for the calls of one turn together; below `timeout_s`.
            max_calls: calls that are made in one turn; the policy gets a message for each beyond them.
            max_result_chars: characters of a result at most; the rest is cut, with a note of how much.
            **kwargs: the arguments of `Environment`.

        Raises:
            ValueError: an argument outside its range, a tool that cannot be imported, or two of one name.
        """
        super().__init__(**kwargs)
        wrong = {
            "at least one tool": not tools,
            f"call_format {', '.join([AUTO, *FORMATS])}": call_format not in (AUTO, *FORMATS),
            f"a response with {RESULT} and a text around it": RESULT not in response or response.strip(" ") == RESULT,
            f"tool_timeout_s above 0 and below timeout_s ({self.timeout_s:g})": not 0 < tool_timeout_s < self.timeout_s,
            "max_calls >= 1": max_calls < 1,
            "max_result_chars >= 1": max_result_chars < 1,
        }
        if any(wrong.values()):
            raise ValueError(f"ToolEnvironment needs {' and '.join(rule for rule, broken in wrong.items() if broken)}")
        self.paths, self.call_format, self.role, self.describe, self.response = tools, call_format, role, describe, response
        self.describes_tools = describe
        self.tool_timeout_s, self.max_calls, self.max_result_chars = tool_timeout_s, max_calls, max_result_chars
        self._functions = self._by_name()
        self._schemas: dict[str, dict[str, JSON]] = {}
        self._owners: dict[type, object] = {}
        self._chat = False
        self._calls: list[dict[str, JSON]] = []

    @property
    def tools(self) -> Sequence[JSON]:
        """The JSON schemas of the functions; a ValueError if one lacks a type or a part of its docstring."""
        return list(self._described().values())

    def check(self, columns: frozenset[str]) -> None:
        """Refuse functions that cannot be described, and classes that ask for what prompts do not have."""
        self._described()
        for owner in {tool.owner for tool in self._functions.values() if tool.owner is not None}:
            asked = self._asked(owner)
            missing = [name for name, required in asked.items() if required and name not in (*GIVEN, *columns)]
            if missing:
                raise ValueError(
                    f"the tools of {owner.__module__}.{owner.__qualname__} ask for {', '.join(missing)}, which prompts do not have; "
                    f"they have {', '.join([*GIVEN, *sorted(columns)])}"
                )

    def begin(self, prompt: Prompt, seed: int) -> Said:
        self._chat = prompt.messages is not None
        given = {**prompt.columns, "prompt": prompt, "seed": seed}
        for owner in dict.fromkeys(tool.owner for tool in self._functions.values() if tool.owner is not None):
            self._owners[owner] = self._made(owner, given)
        opening, described = own_opening(prompt), self._description() if self.describe else ""
        if isinstance(opening, str):
            return described + opening
        return [{**message, "content": message["content"] if i else described + message["content"]} for i, message in enumerate(opening)]

    def reply(self, completion: str) -> Reply:
        calls = calls_in(completion, self.call_format)
        deadline = time.monotonic() + self.tool_timeout_s
        said: list[Message] = []
        counts = {"tools/unread_calls": 1.0} if not calls and looks_like_call(completion, self._functions) else {}
        for number, call in enumerate(calls[: self.max_calls + 1]):
            result = self._answer(call, deadline, len(calls) - number if number == self.max_calls else 0)
            said.append(self._message(call, result))
            known = [f"tools/{call.name}/calls", f"tools/{call.name}/errors"][: 1 + result.failed]
            for name in known if call.name in self._functions else ["tools/invalid_calls"]:
                counts[name] = counts.get(name, 0.0) + 1.0
        state = {"calls": list(self._calls)}
        return Reply(self._joined(said) if calls else "", done=not calls, state=state, counts=counts)

    def _answer(self, call: ToolCall, deadline: float, beyond: int) -> ToolResult:
        """The result of a call, or one for all that a turn has beyond the limit: a turn may hold thousands."""
        record: dict[str, JSON] = {"name": call.name, "arguments": _recorded(call.arguments)}
        if beyond:
            result = error_result(f"{beyond} not called, since a turn may have {self.max_calls} calls", self.max_result_chars)
        else:
            result = self._result(call, record, deadline)
        self._calls.append({**record, "result": result.text, "failed": result.failed})
        return result

    def _result(self, call: ToolCall, record: dict[str, JSON], deadline: float) -> ToolResult:
        tool = self._functions.get(call.name)
        seconds = deadline - time.monotonic()
        try:
            if call.error:
                raise WrongArguments(call.error)
            if tool is None:
                raise WrongArguments(f"there is no tool {call.name!r}; there are: {', '.join(self._functions)}")
            given = named_arguments(tool, call)
            record["arguments"] = _recorded(given)
            arguments = typed_arguments(tool, self._described()[tool.name], given, call.spelled)
        except WrongArguments as error:
            return error_result(str(error), self.max_result_chars)
        if seconds <= 0:
            return error_result(f"not called, since the calls of this turn took {self.tool_timeout_s:g} s", self.max_result_chars)
        return run_tool(self._bound(tool), arguments, seconds, self.tool_timeout_s, self.max_result_chars)

    def _asked(self, owner: type) -> Mapping[str, bool]:
        """What a stateful class asks for by name, each with whether it must be given."""
        return constructor_arguments(owner) or {}

    def _made(self, owner: type, given: Mapping[str, object]) -> object:
        """The instance of a stateful class for this episode."""
        asked = constructor_arguments(owner)
        return owner(**{name: value for name, value in given.items() if asked is None or name in asked})

    def _methods(self, path: str) -> tuple[str, ...] | None:
        """The methods that are tools, if a path is that of a class; None: all public ones."""
        return None

    def _bound(self, tool: ToolFunction) -> Callable[..., object]:
        bound: Callable[..., object] = getattr(self._owners[tool.owner], tool.name) if tool.owner is not None else tool.function
        return bound

    def _message(self, call: ToolCall, result: ToolResult) -> Message:
        # Mistral's templates want nine letters and digits
        name = call.name if call.name in self._functions else "unknown"
        return {"role": "tool", "name": name, "tool_call_id": f"call{len(self._calls):05d}", "content": result.text}

    def _joined(self, results: Sequence[Message]) -> Said:
        if self._chat and self.role == "tool":
            return results
        texts = [self.response.replace("{name}", result["name"]).replace(RESULT, result["content"]) for result in results]
        return [{"role": "user", "content": "".join(texts).strip()}] if self._chat else "".join(texts)

    def _described(self) -> dict[str, dict[str, JSON]]:
        if not self._schemas:
            self._schemas = {name: schema_of(tool) for name, tool in self._functions.items()}
        return self._schemas

    def _description(self) -> str:
        lines = [json.dumps(schema["function"]) for schema in self._described().values()]
        example = FORMATS.get(self.call_format, FORMATS["hermes"]).example.replace("NAME", "name")
        return "\n".join(["You can call these functions:", *lines, f"A call is written {example}", "", ""])

    def __getstate__(self) -> dict[str, object]:
        # functions are imported again where they are needed; schemas travel along, so that a worker loads no transformers
        self._described()
        return {name: value for name, value in vars(self).items() if name != "_functions"}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._functions = self._by_name()

    def _by_name(self) -> dict[str, ToolFunction]:
        found: dict[str, ToolFunction] = {}
        for tool in (tool for path in self.paths for tool in tool_functions(path, self._methods(path), self.awaits)):
            if other := found.get(tool.name):
                raise ValueError(f"two tools are called {tool.name!r}, {other.path} and {tool.path}: leave one out, or rename it")
            found[tool.name] = tool
        return found


def _recorded(arguments: Mapping[str, JSON]) -> JSON:
    # keys that are no texts, which only calls in Python have, become texts in records
    return json.loads(json.dumps(dict(arguments)))
