"""Right programs whose tests use objects, exceptions, coroutines and values of the standard library; each passes its tests."""

# ruff: noqa: E501 - the programs

POINT = "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\n    y: int = 0\n"
VECTOR = "class V:\n    def __init__(self, *c): self.c = c\n    def __add__(self, o): return V(*(a + b for a, b in zip(self.c, o.c)))\n    def __eq__(self, o): return self.c == o.c\n    def __lt__(self, o): return self.c < o.c\n    def __hash__(self): return hash(self.c)\n    def __neg__(self): return V(*(-a for a in self.c))\n    def __iadd__(self, o):\n        self.c = tuple(a + b for a, b in zip(self.c, o.c))\n        return self\n"
NODE = "class N:\n    def __init__(self, v, next=None): self.v, self.next = v, next\ndef last(n):\n    while n.next: n = n.next\n    return n.v\n"
COUNTER = "class C:\n    def __init__(self): self.value = 0\n    def inc(self): self.value += 1\n"
STACK = "class Stack(list):\n    def push(self, x): self.append(x)\n    def top(self): return self[-1]\n"
ERRORS = "class TooSmall(ValueError):\n    def __init__(self, n):\n        super().__init__(f'{n} is too small')\n        self.n = n\ndef f(n):\n    if n < 3: raise TooSmall(n)\n    return n\n"
CONTEXT = "class T:\n    def __init__(self): self.log = []\n    def __enter__(self):\n        self.log.append('in')\n        return self\n    def __exit__(self, kind, *_):\n        self.log.append(kind and kind.__name__)\n        return kind is ValueError\n"
ROWS = "class Rows:\n    def __init__(self, n): self.n = n\n    def __len__(self): return self.n\n    def __iter__(self): return iter(range(self.n))\n    def __getitem__(self, i): return list(range(self.n))[i]\n    def __setitem__(self, i, v): self.n = v\n    def __delitem__(self, i): self.n -= 1\n"

AGAIN = "class Again:\n    def __init__(self, n): self.n = n\n    def __len__(self): return self.n\n    def __iter__(self):\n        self.i = -1\n        return self\n    def __next__(self):\n        self.i += 1\n        if self.i >= self.n: raise StopIteration\n        return self.i\n"
DOWN = "class Down:\n    def __init__(self, n): self.n = n\n    def __len__(self): return self.n\n    def __iter__(self): return self\n    def __next__(self):\n        if not self.n: raise StopIteration\n        self.n -= 1\n        return self.n + 1\n"

RIGHT = {
    "a set attribute": (["c = C()\nc.value = 5\nc.inc()\nassert c.value == 6"], COUNTER),
    "a deleted attribute": (["c = C()\ndel c.value\nassert not hasattr(c, 'value')"], COUNTER),
    "a linked list": (["h = N(1)\nh.next = N(2)\nassert last(h) == 2", "h, seen = N(1, N(2)), []\nwhile h:\n    seen.append(h.v)\n    h = h.next\nassert seen == [1, 2]"], NODE),
    "decimals": (["from decimal import Decimal\nassert f(1) == Decimal('0.1')"], "from decimal import Decimal\ndef f(n): return Decimal(n) / 10"),
    "fractions": (["from fractions import Fraction\nassert f(1, 2) == Fraction(1, 2) and f(1, 2).numerator == 1"], "from fractions import Fraction as F\ndef f(a, b): return F(a, b)"),
    "dates": (["from datetime import date, timedelta\nassert f(date(2024, 2, 28)) == date(2024, 2, 29)", "assert f(date(2024, 1, 1)).isoformat() == '2024-01-02'"], "from datetime import timedelta\ndef f(d): return d + timedelta(days=1)"),
    "deques": (["from collections import deque\nassert f([1, 2]) == deque([2, 1])"], "from collections import deque\ndef f(x): return deque(reversed(x))"),
    "counters": (["assert f('aab').most_common(1) == [('a', 2)] and f('')['x'] == 0"], "from collections import Counter as f"),
    "default dictionaries": (["assert f([1, 2])['x'] == [] and f([1])[1] == ['one']"], "from collections import defaultdict\ndef f(x):\n    d = defaultdict(list)\n    for n in x: d[n].append('one')\n    return d"),
    "ordered dictionaries": (["from collections import OrderedDict\nassert f('ba') == OrderedDict([('b', 0), ('a', 1)])"], "from collections import OrderedDict\ndef f(s): return OrderedDict((c, i) for i, c in enumerate(s))"),
    "named tuples": (["assert f(1).x == 1 and f(1) == (1, 2) and f(1)._asdict() == {'x': 1, 'y': 2}"], "from collections import namedtuple\nP = namedtuple('P', 'x y')\ndef f(n): return P(n, n + 1)"),
    "named tuples with methods": (["p = P(3, 4)\nassert p.size() == 5 and p == (3, 4) and p[0] == 3"], "from typing import NamedTuple\nclass P(NamedTuple):\n    x: int\n    y: int\n    def size(self): return (self.x ** 2 + self.y ** 2) ** 0.5"),
    "dataclasses": (["assert P(1) == P(1) and P(1) != P(2)", "assert P(1, 2).x == 1 and 'x=1' in repr(P(1))"], POINT),
    "a list of objects": (["assert [P(1), P(2)] == [P(1), P(2)] and P(3) in [P(1), P(3)] and P(4) not in [P(1)]"], POINT),
    "operators": (["assert V(1, 2) + V(3, 4) == V(4, 6)", "assert V(1) < V(2) and not V(2) < V(1) and sorted([V(2), V(1)])[0] == V(1)", "assert (-V(1, 2)).c == (-1, -2)", "assert len({V(1), V(1), V(2)}) == 2", "v = V(1)\nv += V(2)\nassert v.c == (3,)", "assert max(V(1), V(3)) == V(3)"], VECTOR),
    "classes": (["assert isinstance(f(2), P) and not isinstance(3, P)", "assert type(f(2)) is P and type(f(2)).__name__ == 'P' and f(2).__class__ == P", "assert issubclass(Q, P)"], POINT + "class Q(P): pass\ndef f(n): return P(n)"),
    "classes of the library": (["import types\nassert isinstance(f(2), types.GeneratorType)", "from collections.abc import Iterator\nassert isinstance(f(2), Iterator) and not isinstance(f, Iterator) and callable(f) and not callable(f(2))"], "def f(n): yield n"),
    "types as values": (["assert f(5) is int and f('x') == str"], "f = type"),
    "functions of the library as arguments": (["assert f(len, ['a', 'bb']) == [1, 2] and f(str.upper, 'ab') == ['A', 'B']", "import math\nassert f(math.sqrt, [4]) == [2.0]"], "def f(g, x): return [g(y) for y in x]"),
    "exceptions of its own": (["try:\n    f(2)\n    assert False\nexcept TooSmall as error:\n    assert str(error) == '2 is too small' and error.n == 2", "try:\n    f(1)\nexcept ValueError:\n    pass\nelse:\n    raise AssertionError('accepted')", "try:\n    f(1)\n    assert False, 'accepted'\nexcept TooSmall:\n    pass", "import unittest\ncase = unittest.TestCase()\nwith case.assertRaises(TooSmall):\n    f(0)\nassert f(3) == 3"], ERRORS),
    "arguments of exceptions": (["try:\n    f(7)\nexcept KeyError as error:\n    assert error.args == (7, [1])"], "def f(n): raise KeyError(n, [1])"),
    "names of modules": (["queue.push(3)\nassert queue.pop() == 3", "assert calendar.book(1) is True"], "class Q:\n    def __init__(self): self.x = []\n    def push(self, v): self.x.append(v)\n    def pop(self): return self.x.pop()\n    def book(self, day): return True\nqueue = Q()\ncalendar = Q()"),
    "contexts": (["with T() as t:\n    t.log.append('lost')\nassert t.log == ['in', None]", "t = T()\nwith t:\n    raise ValueError('kept')\nassert t.log == ['in', 'ValueError']"], CONTEXT),
    "coroutines": (["import asyncio\nassert asyncio.run(f(2)) == 4", "async def both():\n    return await asyncio.gather(f(1), f(3))\nassert asyncio.run(both()) == [1, 9]"], "import asyncio\nasync def f(n):\n    await asyncio.sleep(0)\n    return n * n"),
    "deep lists": (["x, depth = f(1200), 0\nwhile x:\n    x, depth = x[0], depth + 1\nassert depth == 1200"], "def f(n):\n    x = []\n    for _ in range(n): x = [x]\n    return x"),
    "a subclass of list": (["s = Stack()\ns.push(1)\ns.push(2)\nassert s.top() == 2 and s == [1, 2] and len(s) == 2 and 2 in s and s + [3] == [1, 2, 3]"], STACK),
    "enumerations": (["assert Color.RED.value == 1 and Color(1) is Color.RED and Color.RED != Color.BLUE and Color.RED.name == 'RED'", "assert [c.name for c in Color] == ['RED', 'BLUE']"], "from enum import Enum\nclass Color(Enum):\n    RED = 1\n    BLUE = 2"),
    "keys of dictionaries": (["assert f({'a': 1}) == {'a'} and 'a' in f({'a': 1}) and sorted(f({'b': 0, 'a': 1})) == ['a', 'b']"], "def f(d): return d.keys()"),
    "length, truth and items": (["r = Rows(3)\nassert len(r) == 3 and r and list(r) == [0, 1, 2] and all(r[i] == i for i in range(len(r)))", "r = Rows(3)\nr[0] = 5\nassert len(r) == 5\ndel r[0]\nassert len(r) == 4 and list(r) == [0, 1, 2, 3] and not Rows(0)"], ROWS),
    "a generator": (["g = f()\nassert next(g) == 0 and next(g) == 1", "from itertools import islice\nassert list(islice(f(), 3)) == [0, 1, 2]", "assert 5 in f(9) and 9 not in f(9)"], "def f(n=10**9):\n    yield from range(n)"),
    "values by name": (["assert LIMIT == 5", "grow()\nassert LIMIT == 6", "grow()\nassert LIMIT == 7"], "LIMIT = 5\ndef grow():\n    global LIMIT\n    LIMIT += 1"),
    "attributes of functions": (["assert f.__name__ == 'f' and f.__doc__ == 'Twice.' and f(2) == 4"], "def f(n):\n    'Twice.'\n    return 2 * n"),
    "conversions": (["assert int(M(5)) == 5 and float(M(5)) == 5.0 and f'{M(5)}' == '5 coins' and round(M(5)) == 5 and bool(M(0)) is False"], "class M:\n    def __init__(self, n): self.n = n\n    __int__ = __index__ = lambda s: s.n\n    __float__ = lambda s: float(s.n)\n    __str__ = lambda s: f'{s.n} coins'\n    __round__ = lambda s, d=None: s.n\n    __bool__ = lambda s: s.n > 0"),
    "an iterator that begins again": (["r = Again(3)\nassert list(r) == [0, 1, 2] and list(r) == [0, 1, 2] and len(r) == 3", "r = Again(3)\nassert len(r) == 3 and sum(r) == 3 and iter(r) is r and max(r) == 2"], AGAIN),
    "an iterator with what is left": (["c = Down(3)\nassert len(c) == 3 and next(c) == 3 and len(c) == 2 and list(c) == [2, 1] and len(c) == 0"], DOWN),
    "rows of generators": (["r = T(3)\nassert len(r) == 3 and [list(row) for row in r] == [[], [0], [0, 1]] and len(r) == 3"], "class T:\n    def __init__(self, n): self.n = n\n    def __len__(self): return self.n\n    def __iter__(self): return (iter(range(k)) for k in range(self.n))"),
    "what an exception says": (["try:\n    f(-1)\n    assert False\nexcept Negative as error:\n    assert str(error) == 'negative: -1' and error.twice == -2 and error.code == 4"], "class Negative(Exception):\n    code = 4\n    twice = property(lambda s: 2 * s.n)\n    def __init__(self, n): self.n = n\n    def __str__(self): return f'negative: {self.n}'\ndef f(n): raise Negative(n)"),
    "an exit": ([{"input": "0\n", "output": "none"}, {"input": "3", "output": "9"}], "n = int(input())\nif n == 0:\n    print('none')\n    exit()\nprint(n * n)\nquit(0)"),
    "a main part": ("if __name__ == '__main__':\n    assert f(2) == 4\n    assert f(3) == 9", "def f(n): return n * n"),
    "a function that is called": ("def test():\n    assert f(2) == 4\ntest()", "def f(n): return n * n"),
    "a loop over an answer": ("for n in range(f(2)):\n    assert f(n) == n * n", "def f(n): return n * n"),
    "either of two": ("try:\n    assert f(2) == 4\nexcept AssertionError:\n    assert f(2) == -4", "def f(n): return -n * n"),
    "one of the branches": ("got = f(2)\nif isinstance(got, list):\n    assert got == [4]\nelse:\n    assert got == 4", "def f(n): return n * n"),
}  # fmt: skip
"""By what the tests use: the tests, and a program that is right."""

UNTESTABLE = {
    "a function of the test": (["assert f(lambda n: n + 1, 2) == 3"], "def f(g, n): return g(n)"),
    "membership that a class decides": (["assert 3 in S()"], "class S:\n    def __contains__(self, n): return n == 3"),
    "an operator with a value": (["assert (V(1) * 2).n == 2"], "class V:\n    def __init__(self, n): self.n = n\n    def __mul__(self, k): return V(self.n * k)"),
    "output that is captured": (["import io, contextlib\nout = io.StringIO()\nwith contextlib.redirect_stdout(out):\n    f()\nassert out.getvalue() == 'x'"], "def f(): print('x', end='')"),
    "a mock": (["from unittest.mock import patch\nwith patch('builtins.input', return_value='5'):\n    assert f() == 5"], "def f(): return int(input())"),
    "a stream that is replaced": (["import sys, io\nsys.stdin = io.StringIO('5')\nassert f() == 5"], "def f(): return int(input())"),
    "a file": (["with open('/tmp/x', 'w') as file:\n    file.write('a')\nassert f('/tmp/x') == 'a'"], "def f(p): return open(p).read()"),
    "a source": (["import inspect\nassert 'for' not in inspect.getsource(f) and f(2) == 4"], "def f(n): return n * n"),
    "a copy": (["import copy\nassert copy.copy(C(3)).n == 3"], "class C:\n    def __init__(self, n): self.n = n"),
    "an asynchronous loop": (["import asyncio\nasync def run(): return [n async for n in f(2)]\nassert asyncio.run(run()) == [0, 1]"], "async def f(n):\n    for i in range(n): yield i"),
    "a class of numbers": (["assert isinstance(f(2), Meter)"], "class Meter(int): pass\ndef f(n): return Meter(n)"),
    "a loop over nothing": ("for n in f([]):\n    assert n > 0", "def f(x): return x"),
    "names made by exec": (["exec('want = 4')\nassert f(2) == want and f(LIMIT) == 25"], "LIMIT = 5\ndef f(n): return n * n"),
}  # fmt: skip
"""By what the tests use: tests that cannot be passed here by a program that is right; the row fails, with the reason."""
