"""Programs that try to pass tests by what their objects say, by names, by exceptions, and by tests that are never reached."""

# ruff: noqa: E501 - the programs

from forged_passes import SQUARE, Suite

LIST = "def f(n): return [i * i for i in range(n)]\n"
TRUE = "lambda *a: True"

TESTS = {
    "main": Suite("if __name__ == '__main__':\n    assert f(2) == 4\n", SQUARE),
    "called": Suite("def test():\n    assert f(2) == 4\ntest()", SQUARE),
    "range": Suite("for n in range(f(3)):\n    assert f(n) == n * n", SQUARE),
    "while": Suite("while f(2) == 4:\n    assert f(3) == 9\n    break", SQUARE),
    "match": Suite("match f(2):\n    case 4:\n        assert f(3) == 9", SQUARE),
    "if": Suite("if f(2) == 4:\n    assert f(3) == 9", SQUARE),
    "first and loop": Suite("def check(candidate):\n    assert candidate(0) == 0\n    for n in range(candidate(2)):\n        assert candidate(n) == n * n", SQUARE, "f"),
    "try": Suite("try:\n    got = f(2)\n    assert got == 4\nexcept ValueError:\n    pass", SQUARE),
    "expects": Suite("try:\n    f(-1)\n    assert False\nexcept Exception:\n    pass", "def f(n):\n    if n < 0: raise ValueError(n)"),
    "length": Suite("r = f(3)\nassert len(r) == 3 and all(r[i] == i * i for i in range(len(r)))", LIST),
    "length, loop": Suite("r = f(3)\nassert len(r) == 3 and all(got == want for got, want in zip(r, [0, 1, 4]))", LIST),
    "loop, length": Suite("r = f(3)\nassert all(got == want for got, want in zip(r, [0, 1, 4])) and len(r) == 3", LIST),
    "twice": Suite("r = f(3)\nassert len(list(r)) == 3 and all(a == b for a, b in zip([0, 1, 4], list(r), strict=True))", LIST),
    "truth": Suite("r = f(3)\nassert r and not (not r) and r == [0, 1, 4]", LIST),
    "contains": Suite("assert 49 in f(8) and 50 not in f(8)", LIST),
    "contains alone": Suite("assert 49 in f(8)", LIST),
    "bounds": Suite("r = f(3)\nassert 8 < r < 10 and r - 9 == 0", SQUARE),
    "near": Suite("assert abs(f(3) - 9.0) < 1e-6", SQUARE),
    "attribute": Suite("p = f(3)\nassert p.x == 3 and p.x + 1 == 4 and p.y == 9", "class P: pass\ndef f(n):\n    p = P()\n    p.x, p.y = n, n * n\n    return p"),
    "attribute compared": Suite("p = f(3)\nassert p.x == 3 and p.y == p.x * 3", "class P: pass\ndef f(n):\n    p = P()\n    p.x, p.y = n, n * n\n    return p"),
    "set": Suite("p = P()\np.x = 5\np.double()\nassert p.x == 10", "class P:\n    def double(self): self.x *= 2"),
    "global": Suite("def prepare():\n    global got, want\n    got, want = f(2), 4\ntry:\n    prepare()\nexcept ValueError:\n    pass\nassert got == want", SQUARE),
    "walrus": Suite("try:\n    [got := f(n) for n in (2, 3)]\nexcept ValueError:\n    pass\nassert got == 9", SQUARE),
    "exec": Suite("try:\n    exec('got, want = f(2), 4')\nexcept ValueError:\n    pass\nassert got == want", SQUARE),
    "globals": Suite("try:\n    globals().update(got=f(2), want=4)\nexcept ValueError:\n    pass\nassert got == want", SQUARE),
    "equal objects": Suite("a, b = P(1), P(2)\nassert a == P(1) and a != b and b != P(1)", "class P:\n    def __init__(self, x): self.x = x\n    def __eq__(self, o): return self.x == o.x\n    __hash__ = None"),
    "is a": Suite("assert isinstance(f(2), list) and len(f(2)) == 2", LIST),
    "type": Suite("assert type(f(2)) is int and f(2) == 4", SQUARE),
    "context": Suite("with f(2) as r:\n    assert r.x == 4", "class R:\n    def __init__(self, n): self.x = n * n\n    def __enter__(self): return self\n    def __exit__(self, *a): return None\nf = R"),
    "awaited": Suite("import asyncio\nassert asyncio.run(f(2)) == 4", "async def f(n): return n * n"),
    "hashed": Suite("assert {f(2): 'x'}[4] == 'x' and {f(3)} == {9}", SQUARE),
    "words": Suite("assert str(f(2)) == '4' and repr(f(2)) == '4' and f'{f(2)}' == '4' and f(2) == 4", SQUARE),
    "error": Suite("try:\n    f(-1)\n    assert False\nexcept Bad as error:\n    assert error.n == -1 and str(error) == 'bad'\nassert f(2) == 4",
                   "class Bad(Exception): pass\ndef f(n):\n    if n < 0:\n        error = Bad('bad')\n        error.n = n\n        raise error\n    return n * n"),
    "values": Suite("from fractions import Fraction\nfrom decimal import Decimal\nassert f(2) == Fraction(1, 2) and g(2) == Decimal('0.5')", "from fractions import Fraction\nfrom decimal import Decimal\ndef f(n): return Fraction(1, n)\ndef g(n): return 1 / Decimal(n)"),
}  # fmt: skip


def cls(body: str, returned: str = "A()") -> str:
    """A program whose `f` returns an object of a class with this body, a line each."""
    return "class A:\n" + "".join(f"    {line}\n" for line in body.splitlines()) + f"def f(*a): return {returned}\n"


ONCE = "n = 0\ndef once(*values):\n    global n\n    n += 1\n    return values[min(n, len(values)) - 1]\n"
"""A different value at each call, the last one from then on."""
EVERYTHING = "\n".join(f"__{name}__ = {TRUE}" for name in ["eq", "ne", "lt", "le", "gt", "ge", "contains", "bool", "call", "instancecheck"])
ZERO = "\n".join(
    f"__{name}__ = lambda *a: 0"
    for name in [
        "sub",
        "rsub",
        "add",
        "radd",
        "abs",
        "mul",
        "rmul",
        "mod",
        "floordiv",
        "int",
        "float",
        "index",
        "round",
        "neg",
        "hash",
        "len",
    ]
)
CONSTANTS = (
    "0",
    "1",
    "None",
    "True",
    "False",
    "''",
    "[]",
    "4.0000001",
    "float('nan')",
    "range(0)",
    "iter(())",
    "NotImplemented",
    "int",
    "type",
    "...",
)

OBJECTS = {
    **{f"constant {value} where tests are reached by answers ({suite})": (suite, f"def f(*a): return {value}") for value, suite in zip(
        CONSTANTS, ["range", "while", "match", "if", "main", "called", "first and loop", "near", "bounds", "range", "length, loop", "truth", "type", "is a", "words"], strict=True)},
    "zero in the main part": ("main", "def f(n): return 0"),
    "zero in a function that is called": ("called", "def f(n): return 0"),
    "zero, and a loop over it": ("range", "def f(n): return 0"),
    "zero in a check": ("first and loop", "def f(n): return 0"),
    "a test of its own": ("called", "def test(): pass\ndef f(n): return 0"),
    "another name of the module": ("main", "__name__ = 'x'\ndef f(n): return 0"),
    "an exception that leaves the assert out": ("try", "def f(n): raise ValueError"),
    "no exception where one is expected": ("expects", "def f(n): return 0"),
    "an exit where an exception is expected": ("expects", "def f(n): raise SystemExit"),
    "a length, then another": ("length", ONCE + cls("__len__ = lambda s: once(3, 0)\n__getitem__ = lambda s, i: 7")),
    "a length, then another, by a property": ("length", ONCE + cls("__len__ = lambda s: once(3, 3, 0)\n__getitem__ = lambda s, i: 0")),
    "a length and no items": ("length, loop", cls("__len__ = lambda s: 3\n__iter__ = lambda s: iter(())")),
    "no items and a length": ("loop, length", cls("__len__ = lambda s: 3\n__iter__ = lambda s: iter(())")),
    "a length and no items by index": ("length, loop", cls("__len__ = lambda s: 3\ndef __getitem__(self, i): raise IndexError")),
    "items once": ("twice", ONCE + cls("__iter__ = lambda s: iter(once([7, 7, 7], []))")),
    "items of another kind the second time": ("twice", ONCE + cls("__iter__ = lambda s: once(iter('abc'), iter([0, 1, 5]))")),
    "an iterator that begins again": ("twice", cls("i = 0\n__iter__ = lambda s: s\ndef __next__(s):\n    s.i += 1\n    if s.i % 4 == 0: raise StopIteration\n    return 7")),
    "true and false": ("truth", ONCE + cls("__bool__ = lambda s: once(True, False)\n__eq__ = lambda *a: True")),
    "true by its length": ("truth", ONCE + cls("__len__ = lambda s: once(1, 0)\n__eq__ = lambda *a: True")),
    "everything is in it": ("contains", cls(EVERYTHING)),
    "everything is in it, alone": ("contains alone", cls(EVERYTHING)),
    "in it once": ("contains", ONCE + cls("__contains__ = lambda *a: once(True, False)")),
    "a count without end": ("contains alone", "import itertools\ndef f(n): return itertools.count()"),
    "a count without end by a class": ("contains alone", cls("__iter__ = lambda s: s\ni = -1\ndef __next__(s):\n    s.i += 1\n    return s.i")),
    "items by any index": ("contains alone", cls("__getitem__ = lambda s, i: i")),
    "a list with everything": ("contains alone", cls("__contains__ = lambda *a: True", "B()").replace("class A:", "class B(list):")),
    "a dictionary with everything": ("contains", "class B(dict):\n    def __contains__(self, x): return True\n    def extra(self): pass\ndef f(n): return B()"),
    "between all bounds": ("bounds", cls(EVERYTHING + "\n" + ZERO)),
    "a number between all bounds": ("bounds", "class B(int):\n    __lt__ = __gt__ = __eq__ = lambda *a: True\n    __sub__ = lambda *a: 0\n    extra = 1\n    __hash__ = None\ndef f(n): return B(7)"),
    "near everything": ("near", cls(ZERO)),
    "near everything, from the right": ("near", cls("__sub__ = lambda s, o: o - o")),
    "a float near everything": ("near", "class B(float):\n    __sub__ = lambda *a: 0.0\n    extra = 1\ndef f(n): return B(7)"),
    "an attribute that learns": ("attribute compared", "class Any:\n    __eq__ = __mul__ = __rmul__ = lambda *a: Any()\n    __bool__ = lambda s: True\nclass P: x = y = Any()\ndef f(n): return P()"),
    "an attribute that changes": ("attribute", ONCE + cls("x = property(lambda s: once(3, 3, 9))\ny = property(lambda s: 3)")),
    "an attribute that is everything": ("attribute", cls(EVERYTHING + "\n" + ZERO + "\n__getattr__ = lambda s, n: A()")),
    "attributes by a mock": ("attribute", "from unittest.mock import MagicMock\ndef f(n): return MagicMock()"),
    "an attribute that cannot be set": ("set", "class P:\n    __slots__ = ()\n    def double(self): pass"),
    "an attribute that swallows": ("set", "class P:\n    x = 5\n    def __setattr__(self, n, v): pass\n    def double(self): pass"),
    "an attribute that stays": ("set", "class P:\n    def double(self): pass"),
    "names of a function with global": ("global", "got = want = 0\ndef f(n): raise ValueError"),
    "names of a comprehension": ("walrus", "got = 9\ndef f(n): raise ValueError"),
    "names of exec": ("exec", "got = want = 0\ndef f(n): raise ValueError"),
    "names of globals": ("globals", "got = want = 0\ndef f(n): raise ValueError"),
    "names that are objects": ("global", cls(EVERYTHING) + "got = want = A()\ndef f(n): raise ValueError"),
    "equal and unequal": ("equal objects", f"class P:\n    def __init__(self, x): pass\n    __eq__ = __ne__ = {TRUE}"),
    "never equal": ("equal objects", "class P:\n    def __init__(self, x): pass\n    __eq__ = lambda *a: False"),
    "the same object": ("equal objects", "p = object()\ndef P(x): return p"),
    "equal now and then": ("equal objects", ONCE + "class P:\n    def __init__(self, x): pass\n    __eq__ = lambda *a: once(True, False, True)"),
    "an object that says that it is a list": ("is a", cls("__class__ = list\n__len__ = lambda s: 3")),
    "a class that takes everything for its own": ("is a", "class M(type):\n    __instancecheck__ = __subclasscheck__ = lambda *a: True\nclass A(metaclass=M): pass\ndef f(n): return A()"),
    "a type that is int by name": ("type", "def f(n): return int.__new__(type('int', (int,), {'__eq__': lambda *a: True, '__hash__': None}), 7)"),
    "an object of the type int": ("type", cls("__class__ = int\n__eq__ = lambda *a: True")),
    "a context that swallows": ("context", "class R:\n    x = 0\n    def __init__(self, n): pass\n    def __enter__(self): return self\n    def __exit__(self, *a): return True\nf = R"),
    "a context that ends": ("context", "class R:\n    x = 0\n    def __init__(self, n): pass\n    def __enter__(self): return self\n    def __exit__(self, *a): raise SystemExit\nf = R"),
    "a coroutine of an object": ("awaited", "class A:\n    __eq__ = lambda *a: True\nasync def f(n): return A()"),
    "an awaitable object": ("awaited", cls("__await__ = lambda s: iter(())\n__eq__ = lambda *a: True")),
    "a hash of everything": ("hashed", cls("__hash__ = lambda s: 4\n__eq__ = lambda *a: True")),
    "words that fit": ("words", cls("__str__ = __repr__ = lambda s: '4'\n__format__ = lambda *a: '4'\n__eq__ = lambda *a: True")),
    "an exception that is everything": ("error", "class Bad(Exception):\n    __eq__ = lambda *a: True\ndef f(n): raise Bad('bad')"),
    "an exception with a fitting value": ("error", cls(EVERYTHING).replace("def f(*a): return A()", "class Bad(Exception): n = A()\ndef f(n): raise Bad('bad')")),
    "an exception of another name": ("error", "Bad = Exception\ndef f(n): raise AssertionError"),
    "an exception class that is an object": ("error", "class Meta(type): __instancecheck__ = lambda *a: True\nclass Bad(metaclass=Meta): pass\ndef f(n): raise ValueError('bad')"),
    "fractions of its own": ("values", "class Fraction(float):\n    __eq__ = lambda *a: True\n    __hash__ = None\ndef f(n): return Fraction(7)\ng = f"),
    "answers that alternate": ("attribute compared", ONCE + cls("x = property(lambda s: once(3, 0))\ny = property(lambda s: once(9, 0))")),
    "a loop that another call ends": ("length, loop", cls("__len__ = lambda s: 3\n__reversed__ = __iter__ = lambda s: (i for i in ())")),
    "fractions that are not numbers": ("values", "from decimal import Decimal\ndef f(n): return Decimal('nan')\ng = f"),
}  # fmt: skip
"""By idea: the tests that the program is to pass, and the program."""
