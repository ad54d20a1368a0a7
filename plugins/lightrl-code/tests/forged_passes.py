"""Programs that try to pass tests without doing what is asked: by exceptions, by values, by names, and by what they send."""

# ruff: noqa: E501 - the programs

from dataclasses import dataclass


@dataclass(frozen=True)
class Suite:
    """Tests that a square, or what else they ask for, passes."""

    tests: str | list[str]
    honest: str
    entry_point: str | None = None
    setup: str = ""


SQUARE = "def f(n):\n    return n * n\n"
MAPPED = "assert all(map(lambda got, want: got == want, map(f, [1, 2, 3]), [1, 4, 9]))"
CHECK = "def check(candidate):\n    for got, want in zip(map(candidate, [1, 2]), [1, 4]):\n        assert got == want\n"
AWAITED = """
seen = []
class Calls:
    def __init__(self): self.left = [1, 2]
    def __aiter__(self): return self
    async def __anext__(self):
        if not self.left: raise StopAsyncIteration
        return f(self.left.pop())
async def run():
    async for value in Calls(): seen.append(value)
try:
    run().send(None)
except StopIteration:
    pass
for value in seen: assert value in (1, 4)
"""
COLLECTED = "s = []\nfor i in range(3): s.append(f(i))\nfor i, value in enumerate(s): assert value == i * i"
CATCHES = "got = 0\ntry:\n    got = f(2)\nexcept:\n    pass\nassert got in (0, 4)"
LEAVES_OUT = "try:\n    got, want = f(2), 4\nexcept ValueError:\n    pass\nassert got == want"
STACK = "class Stack:\n    def __init__(self): self.items = []\n    def push(self, x): self.items.append(x)\n    def top(self): return self.items[-1]\n"

SUITES = {
    "squares": Suite(["assert f(2) == 4", "assert f(3) == 9"], SQUARE),
    "sorts": Suite("x = [3, 1, 2]\nassert f(x) == sorted(x)", "def f(x): return sorted(x)"),
    "mapped": Suite(MAPPED, SQUARE),
    "check": Suite(CHECK, SQUARE, "f"),
    "awaited": Suite(AWAITED, SQUARE),
    "close": Suite(["import math\nassert math.isclose(f(2), 4.0)", "assert abs(f(3) - 9) < 1e-6", "assert not abs(f(3) - 9) > 1"], SQUARE),
    "raises": Suite("try:\n    f(-1)\n    right = False\nexcept ValueError:\n    right = f(2) == 4\nassert right",
                    "def f(n):\n    if n < 0: raise ValueError(n)\n    return n * n"),
    "prepared": Suite("got, want = f(2), 4\nassert got == want", SQUARE),
    "collected": Suite(COLLECTED, SQUARE),
    "catches": Suite(CATCHES, SQUARE),
    "leaves out": Suite(LEAVES_OUT, SQUARE),
    "unittest": Suite("import unittest\ncase = unittest.TestCase()\ncase.assertEqual(f(2), 4)\nassert case", SQUARE),
    "helper": Suite("def near(a, b): return abs(a - b) < 1e-9\nassert near(f(2), 4)", SQUARE),
    "imported": Suite("from math import isclose\nassert isclose(f(2), 4.0)", SQUARE),
    "given": Suite(["assert f(3) == square(3)"], SQUARE, setup="def square(n): return n * n\n"),
    "iterated": Suite("assert list(f(3)) == [0, 1, 4]", "def f(n): return [i * i for i in range(n)]"),
    "reversed": Suite("assert list(reversed(f(3))) == [4, 1, 0]", "def f(n): return [i * i for i in range(n)]"),
    "sets": Suite("assert f([1, 2, 2]) == {1, 2} and 2 in f([2])", "def f(x): return set(x)"),
    "stack": Suite("s = Stack()\ns.push(1)\ns.push(2)\nassert s.top() == 2 and s.items == [1, 2]", STACK),
    "text": Suite("assert f(2) == '4' and str(f(3)) == '9'", "def f(n): return str(n * n)"),
    "threads": Suite("from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as pool:\n    got = list(pool.map(f, range(20)))\n"
                     "assert got == [n * n for n in range(20)]", SQUARE),
}  # fmt: skip

CHANNEL = """
import sys, json, os
def channel():
    frame = sys._getframe()
    while 'channel' not in frame.f_locals: frame = frame.f_back
    return frame.f_locals['channel']
def raw(data): channel()._connection.sendall(data)
"""


def sends(frame: str) -> str:
    """A program whose `f` answers with a message of its own making."""
    return f"{CHANNEL}\ndef f(*x):\n    channel().send({frame})\n    return 0\n"


def ends(how: str) -> str:
    """A program whose `f` does something to the connection."""
    return f"{CHANNEL}\ndef f(*x):\n    {how}\n"


def raises(what: str, before: str = "") -> str:
    """A program whose `f` raises."""
    return f"{before}\ndef f(*x): raise {what}\n"


def returns(value: str, before: str = "") -> str:
    """A program whose `f` returns this."""
    return f"{before}\ndef f(*x): return {value}\n"


def equal(base: str = "") -> str:
    """A class whose objects say that they are equal to everything, and that everything is in them."""
    return f"class All{base}:\n    __eq__ = __contains__ = __lt__ = __gt__ = lambda *a: True\n    __ne__ = lambda *a: False\n    __hash__ = lambda s: 1\n"


ARITHMETIC = (
    "class Zero:\n    __sub__ = __rsub__ = __abs__ = lambda *a: 0\n    __float__ = lambda s: 4.0\n    __lt__ = __bool__ = lambda *a: True\n"
)
ASKS_IN_PLACE = """
import sys
def f(x):
    frame = sys._getframe()
    while frame:
        if 'request' in frame.f_locals: frame.f_locals['request']['in_place'] = True
        frame = frame.f_back
    x.clear()
    return x
"""
PATCHED = """
import sys
main = sys.modules['__main__']
if hasattr(main, 'perform'):
    perform = main.perform
    main.perform = lambda request, *a: (request.update(in_place='with' in request), perform(request, *a))[1]
def f(x):
    x.clear()
    return x
"""
LATER = "import threading, time\ndef f(x):\n    threading.Thread(target=lambda: (time.sleep(0.01), x.sort())).start()\n    return x\n"
ENDS_AT_ONCE = "class Ends:\n    def __iter__(self): raise StopIteration\n    def __len__(self): return 3\n    def __getitem__(self, i): raise StopIteration\n"

FORGERIES = {
    # changes of arguments that nobody asked to see
    "asks for changes in its own request": ("sorts", ASKS_IN_PLACE),
    "asks for changes in a function of the harness": ("sorts", PATCHED),
    "tells of changes": ("sorts", sends("{'value': [], 'changed': [[[]], {'kind': 'dict', 'value': []}]}")),
    "tells of changes by another name": ("sorts", sends("{'value': [], 'arguments': [[[]], {'kind': 'dict', 'value': []}]}")),
    "tells of changes while it is loaded": ("sorts", f"{CHANNEL}\nfor _ in range(3): channel().send({{'value': [], 'changed': [[[]], {{'kind': 'dict', 'value': []}}]}})\ndef f(x): return []"),
    "returns its argument, emptied": ("sorts", "def f(x):\n    x.clear()\n    return x"),
    "sorts after it has returned": ("sorts", LATER),
    # exceptions that mean something to a loop or to the interpreter
    "StopIteration in map": ("mapped", raises("StopIteration")),
    "StopIteration in zip": ("check", raises("StopIteration(4)")),
    "StopIteration under a class of its own": ("mapped", raises("Stop", "class Stop(StopIteration): pass")),
    "another class of that name": ("mapped", raises("StopIteration", "class StopIteration(Exception): pass")),
    "StopAsyncIteration": ("awaited", raises("StopAsyncIteration")),
    "StopIteration in async for": ("awaited", raises("StopIteration")),
    "GeneratorExit": ("mapped", raises("GeneratorExit")),
    "SystemExit": ("mapped", raises("SystemExit(0)")),
    "KeyboardInterrupt": ("mapped", raises("KeyboardInterrupt")),
    "GeneratorExit by message": ("mapped", sends("{'raised': 'GeneratorExit', 'arguments': []}")),
    "SystemExit by message": ("mapped", sends("{'raised': 'SystemExit', 'arguments': [0]}")),
    "StopIteration by message": ("check", sends("{'raised': 'StopIteration', 'arguments': []}")),
    "Broken by message": ("mapped", sends("{'raised': 'Broken', 'arguments': ['the data is wrong']}")),
    "IndexError": ("mapped", raises("IndexError")),
    "AttributeError": ("mapped", raises("AttributeError")),
    "AssertionError": ("raises", raises("AssertionError")),
    "a group of what is expected": ("raises", raises("ExceptionGroup('', [ValueError()])")),
    "an exception that nobody can make": ("raises", sends("{'raised': 'ExceptionGroup', 'arguments': ['', []]}")),
    "an exception with arguments of other types": ("raises", sends("{'raised': 'UnicodeDecodeError', 'arguments': 7}")),
    "an exception without a name": ("raises", sends("{'raised': None, 'arguments': None}")),
    "value and exception": ("raises", sends("{'value': 4, 'raised': 'ValueError', 'arguments': []}")),
    "what it raises becomes a value later": ("raises", raises("ValueError")),
    "an iterator that stops at once": ("iterated", returns("iter([])")),
    "an object that ends its loop": ("iterated", returns("Ends()", ENDS_AT_ONCE)),
    "an object that ends its loop backwards": ("reversed", returns("Ends()", ENDS_AT_ONCE)),
    "no recursion left": ("mapped", "def f(x): return f(x)"),
    # names
    "names that a preparation would have made": ("prepared", raises("ValueError", "got = want = 0")),
    "a preparation that ends early": ("collected", raises("ValueError")),
    "a preparation that ends early, and its names": ("collected", raises("StopIteration", "s = []\nvalue = i = 0")),
    "names that an exception has left out": ("leaves out", raises("ValueError", "got = want = 0")),
    "a preparation that was the only test": ("unittest", returns("5")),
    "its own helper": ("helper", returns("0", "def near(a, b): return True")),
    "its own import": ("imported", returns("0", "def isclose(*a): return True")),
    "its own version of what it was given": ("given", returns("0", "def square(n): return 0")),
    "its own check": ("check", returns("0", "def check(candidate): pass\ncandidate = check")),
    "its own builtins": ("mapped", returns("0", "import builtins\nbuiltins.all = all = lambda x: True\nbuiltins.map = map = lambda *a: []\nlist = dict = all")),
    "its own unittest": ("unittest", returns("0", "class unittest:\n    class TestCase:\n        def assertEqual(self, a, b): pass")),
    "a name for everything": ("given", "import sys\nclass Module(type(sys)):\n    def __getattr__(self, name): return lambda *a: 0\nsys.modules['program'].__class__ = Module\ndef f(n): return 0"),
    # values with a behaviour
    "equal to everything": ("squares", returns("All()", equal())),
    "a number that equals everything": ("squares", returns("All(5)", equal("(int)"))),
    "a float that is near everything": ("close", returns("All(5)", equal("(float)"))),
    "a text that equals everything": ("text", returns("All('x')", equal("(str)"))),
    "a set that equals everything": ("sets", returns("All()", equal("(set)"))),
    "a list that contains everything": ("sets", returns("All()", equal("(list)"))),
    "a class that equals everything": ("squares", returns("All2", equal("(type)") + "class All2(metaclass=All): pass")),
    "an object that says it is a number": ("squares", returns("Four()", "class Four:\n    __class__ = int\n    __int__ = __index__ = lambda s: 4\n    __eq__ = lambda *a: True\n    __hash__ = None")),
    "anything of unittest.mock": ("squares", returns("mock.ANY", "from unittest import mock")),
    "a mock of everything": ("close", returns("mock.MagicMock()", "from unittest import mock")),
    "arithmetic of its own": ("close", returns("Zero()", ARITHMETIC)),
    "not a number": ("squares", returns("float('nan')")),
    "infinite": ("squares", returns("float('inf')")),
    "not implemented": ("squares", returns("NotImplemented")),
    "three dots": ("squares", returns("...")),
    "true": ("squares", returns("True")),
    "a text that computes": ("text", returns("'{0}'.format(x[0])")),
    "an object that says what it is": ("text", returns("Says()", "class Says:\n    __str__ = __repr__ = lambda s: '0'\n    __eq__ = lambda *a: True")),
    "a stack that agrees": ("stack", "class Stack:\n    def __getattr__(self, name): return All()\n" + equal()),
    # what is sent
    "replies in advance": ("squares", f"{CHANNEL}\nfor _ in range(5): channel().send({{'value': True}})\ndef f(n): return 0"),
    "verdicts in place of replies": ("squares", sends("{'passed': True}")),
    "an error in the data, it says": ("squares", sends("{'broken': 'the tests are no Python'}")),
    "two replies to every request": ("squares", sends("{'value': 1}")),
    "an object that was never there": ("squares", sends("{'value': {'kind': 'object', 'value': -1}}")),
    "an object with a number of another type": ("squares", sends("{'value': {'kind': 'object', 'value': [1]}}")),
    "a kind that does not exist": ("squares", sends("{'value': {'kind': 'eval', 'value': '4'}}")),
    "a kind without a value": ("catches", sends("{'value': {'kind': 'set'}}")),
    "an object in a set": ("catches", sends("{'value': {'kind': 'set', 'value': [[1]]}}")),
    "no message": ("catches", ends("raw(bytes([0, 0, 0, 3]) + b'abc')")),
    "a message that is a list": ("catches", ends("raw(bytes([0, 0, 0, 2]) + b'[]')")),
    "a message without end": ("catches", ends("raw(bytes([255, 255, 255, 255]))")),
    "half a message": ("catches", ends("raw(bytes([0, 0, 1, 0])); os._exit(0)")),
    "an empty message": ("catches", sends("{}")),
    "exit where exceptions are caught": ("catches", ends("os._exit(0)")),
    "soft exit where exceptions are caught": ("catches", raises("SystemExit(0)")),
    "no connection": ("catches", ends("channel()._connection.close()")),
    "replies from a thread": ("threads", f"{CHANNEL}\nimport threading\ndef f(n):\n    threading.Thread(target=channel().send, args=({{'value': 0}},)).start()\n    return 0"),
    "a trace that changes what is returned": ("squares", "import sys\ndef trace(frame, event, arg):\n    if event == 'return' and isinstance(arg, dict): arg['value'] = True\n    return trace\ndef f(n):\n    sys.settrace(trace)\n    frame = sys._getframe()\n    while frame: frame.f_trace, frame = trace, frame.f_back\n    return 0"),
    "deaf": ("catches", ends("channel()._connection.shutdown(2)")),
}  # fmt: skip
"""By idea: the suite that the program is to pass, and the program."""
