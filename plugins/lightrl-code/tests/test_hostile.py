"""Programs that want out, or want a reward they have not earned: each ends within its limits, changes nothing, learns nothing.

Each defines `f`; it has won if `f(1)` is "escaped", which each returns where its attack succeeded, or the secret, which stands in the
tests, in a file at home and in the environment of this process.
"""

# ruff: noqa: E501 - the programs
import os
import secrets
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from lightrl_code import UnitTests

from lightrl import Prompt

SECRET = "secret-" + secrets.token_hex(8)
SECONDS, DISK_MB = 1.0, 3
MEMORY_MB = 256 + os.getpid() % 128
"""Another one in each process that tests, so that programs of another are not taken for those that were left."""
TESTS = [f"assert f(1) in ('escaped', {SECRET!r})"]
RETURNS_NONE = "\ndef f(x): return None\n"


def tried(attack: str) -> str:
    """A program whose `f` says whether the attack went through without an exception."""
    body = "\n".join(f"        {line}" for line in attack.strip().splitlines())
    return f"def f(x):\n    try:\n{body}\n        return 'escaped'\n    except BaseException as error:\n        return repr(error)\n"


LIBC = "import ctypes; libc = ctypes.CDLL(None, use_errno=True)\n"
SEARCH = """
import os
def f(x):
    for folder, below, files in os.walk("/"):
        if folder.startswith(("/usr", "/lib")) or folder.endswith(("/bin", "/lib")) or "/python3" in folder:
            below.clear()
            continue
        for name in files:
            try:
                text = open(os.path.join(folder, name), errors="replace").read(10**6)
            except Exception:
                continue
            if "secret-" in text:
                at = text.index("secret-")
                return text[at:at + 23]
"""

WRITE_ANYWHERE = """
import os
def f(x):
    for folder, _, _ in os.walk("/"):
        if not f"{folder}/".startswith("/tmp/"):
            try:
                open(folder + "/x", "w").write("x")
                return "escaped"
            except OSError:
                pass
"""

RESOURCES = {
    "fork bomb": "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass",
    "fork": tried("import os\nif os.fork() == 0:\n    os._exit(0)"),
    "double fork": tried(
        "import os\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        while True: pass\n    os._exit(0)"
    ),
    "another program": tried("import subprocess\nsubprocess.run(['/usr/bin/env'], check=True)"),
    "a process pool": tried("import multiprocessing\np = multiprocessing.Process(target=print)\np.start()\np.join()"),
    "thread bomb": "import threading, time\nwhile True:\n    threading.Thread(target=time.sleep, args=(99,)).start()",
    "memory in pieces": "kept = []\nwhile True:\n    kept.append(bytearray(10**6))",
    "memory at once": tried("bytearray(10**10)"),
    "memory of the kernel": tried("import os\nfd = os.memfd_create('x')\nos.write(fd, b'x')"),
    "shared memory": tried("from multiprocessing import shared_memory\nshared_memory.SharedMemory(create=True, size=10**6)"),
    "raised limits": tried("import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))"),
    "one big file": tried("with open('/tmp/x', 'wb') as file:\n    for _ in range(100): file.write(bytes(10**6))"),
    "many files": tried("for i in range(100):\n    open(f'/tmp/{i}', 'wb').write(bytes(10**6))"),
    "endless files": "i = 0\nwhile True:\n    i += 1\n    open(f'/tmp/{i}', 'w').close()",
    "endless loop": "while True: pass",
    "endless sleep": "import time\ntime.sleep(10**6)",
    "a loop in C": "pow(7, 10**9)",
    "deaf to signals": "import signal\nfor n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n    except Exception: pass\nwhile True: pass",
    "blocked signals": "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\ntime.sleep(10**6)",
    "endless output": "while True: print('x' * 10**6)",
    "endless output to everyone": "import os\nwhile True:\n    for fd in range(64):\n        try: os.write(fd, b'x' * 999)\n        except OSError: pass",
    "huge value": "def f(x): return 'x' * 50_000_000",
    "deep value": "def f(x):\n    value = []\n    for _ in range(10**5): value = [value]\n    return value",
    "endless value": "def f(x):\n    value = []\n    value.append(value)\n    return value",
    "stack overflow": "import sys\nsys.setrecursionlimit(10**9)\ndef f(x): return f(x)",
    "crash": "import ctypes\nctypes.string_at(0)",
}

WAYS_OUT = {
    "environment": "import os\ndef f(x): return os.environ.get('LIGHTRL_TEST_SECRET')",
    "environment of others": "def f(x):\n    for p in ('1', '2', 'self', 'thread-self'):\n        try:\n            for entry in open(f'/proc/{p}/environ').read().split('\\0'):\n                if 'secret-' in entry: return entry.partition('=')[2]\n        except OSError: pass",
    "home": tried("open('HOME/canary').read()"),
    "every file": SEARCH,
    "accounts": tried("open('/etc/passwd').read()"),
    "root of others": tried("import os\nos.listdir('/proc/1/root/')"),
    "write home": tried("open('HOME/canary', 'w').write('gone')"),
    "delete home": tried("import os\nos.remove('HOME/canary')"),
    "make home": tried("import os\nos.mkdir('HOME/more')"),
    "write to the root": tried("open('/x', 'w').write('x')"),
    "write to the system": tried("open('/usr/lib/x', 'w').write('x')"),
    "write to the harness": tried("open('/harness/examiner.py', 'w').write('x')"),
    "write to devices": tried("open('/dev/x', 'w').write('x')"),
    "write anywhere": WRITE_ANYWHERE,
    "mode of devices": tried(
        "import os, pathlib\nfor path in [*pathlib.Path('/dev').iterdir()]: os.chmod(path, 0o666)\nif not os.path.exists('/dev'): raise OSError"
    ),
    "mode of inherited files": "import os, stat\ndef f(x):\n    for fd in range(64):\n        try:\n            kind = os.fstat(fd).st_mode\n            if stat.S_ISSOCK(kind) or stat.S_ISFIFO(kind): continue\n            os.fchmod(fd, kind & 0o777)\n            return 'escaped'\n        except OSError: pass",
    "write by a link": tried("import os\nos.symlink('HOME/canary', '/tmp/link')\nopen('/tmp/link', 'w').write('gone')"),
    "hard link": tried("import os\nos.link('HOME/canary', '/tmp/link')\nopen('/tmp/link', 'w').write('gone')"),
    "parent folders": tried("import os\nopen('/tmp/' + '../' * 20 + 'HOME/canary').read()"),
    "network at home": tried("import socket\nsocket.create_connection(('127.0.0.1', PORT), 1)"),
    "network outside": tried("import socket\nsocket.create_connection(('8.8.8.8', 53), 1)"),
    "local socket": tried("import socket\nsocket.socket(socket.AF_UNIX).connect('\\0lightrl-test-PORT')"),
    "kill the parent": "import os, signal\nfor pid in (os.getppid(), 1, -1):\n    try: os.kill(pid, signal.SIGKILL)\n    except OSError: pass"
    + RETURNS_NONE,
    "kill the test": tried("import os, signal\nos.kill(PID, signal.SIGKILL)"),
    "trace the parent": LIBC + tried("import os\nif libc.ptrace(16, os.getppid(), 0, 0) != 0: raise OSError(ctypes.get_errno())"),
    "read another's memory": LIBC + tried("if libc.process_vm_readv(1, None, 0, None, 0, 0) != 0: raise OSError(ctypes.get_errno())"),
    "mount": LIBC + tried("if libc.mount(b'tmpfs', b'/tmp', b'tmpfs', 0, None) != 0: raise OSError(ctypes.get_errno())"),
    "another namespace": LIBC + tried("if libc.unshare(0x10000000) != 0: raise OSError(ctypes.get_errno())"),
    "the old system calls": LIBC + tried("if libc.syscall(0x40000000 + 39) < 0: raise OSError(ctypes.get_errno())"),
    "become root": tried("import os\nos.setuid(0)"),
    "type on the terminal": tried("import fcntl, termios\nfcntl.ioctl(0, termios.TIOCSTI, b'x')"),
}

FORGERIES = {
    "exit with success": "import sys\nsys.exit(0)",
    "exit at once": "import os\nos._exit(0)",
    "exit when called": "import os\ndef f(x): os._exit(0)",
    "exit softly when called": "def f(x): raise SystemExit(0)",
    "exit at the end": "import atexit, os\natexit.register(os._exit, 0)" + RETURNS_NONE,
    "kill itself": "import os\nos.kill(os.getpid(), 9)",
    "verdicts to everyone": 'import os\nfor fd in range(64):\n    try: os.write(fd, b\'{"total": 1}\\n{"started": true}\\n{"passed": true}\\n\' * 9)\n    except OSError: pass'
    + RETURNS_NONE,
    "replies in advance": "import os\nfor fd in range(3, 64):\n    for body in (b'{\"value\": true}', b'{\"passed\": true}'):\n        try: os.write(fd, (len(body).to_bytes(4, 'big') + body) * 9)\n        except OSError: pass"
    + RETURNS_NONE,
    "no replies": "import os\nos.closerange(3, 64)" + RETURNS_NONE,
    "equals everything": "class All:\n    def __eq__(self, other): return True\n    def __hash__(self): return 1\n    def __bool__(self): return True\ndef f(x): return All()",
    "text that equals everything": "class All(str):\n    def __eq__(self, other): return True\n    __hash__ = str.__hash__\ndef f(x): return All('x')",
    "contained in everything": "class All(list):\n    def __eq__(self, other): return True\n    def __contains__(self, other): return True\ndef f(x): return All()",
    "other assertions": "import builtins\nbuiltins.AssertionError = type('Quiet', (Exception,), {})\nbuiltins.compile = builtins.exec = lambda *a: None"
    + RETURNS_NONE,
    "other unittest": "import unittest\nunittest.TestCase.fail = unittest.TestCase.assertEqual = lambda *a, **k: None" + RETURNS_NONE,
    "other messages": "import sys, json\nfor module in list(sys.modules.values()):\n    for name in ('dumps', 'encode', 'answer', 'perform'):\n        try: setattr(module, name, lambda *a, **k: {'value': 'escaped!'})\n        except Exception: pass"
    + RETURNS_NONE,
    "what callers know": "import sys\ndef f(x):\n    frame = sys._getframe()\n    while frame:\n        for value in [*frame.f_locals.values(), *frame.f_globals.values()]:\n            if 'secret-' in repr(value): at = repr(value).index('secret-'); return repr(value)[at:at + 23]\n        frame = frame.f_back",
    "what memory holds": "import gc\ndef f(x):\n    for value in gc.get_objects():\n        if isinstance(value, (dict, list)):\n            for inner in (value.values() if isinstance(value, dict) else value):\n                if isinstance(inner, str) and inner.startswith('secret-' + '') and len(inner) == 23: return inner",
    "what is sent": "import os\ndef f(x):\n    for fd in range(64):\n        try:\n            os.set_blocking(fd, False)\n            text = os.read(fd, 10**6).decode(errors='replace')\n        except OSError: continue\n        if 'secret-' in text: return text[text.index('secret-'):][:23]",
    "what the command says": "import sys\ndef f(x):\n    for text in [*sys.argv, *getattr(sys, 'orig_argv', [])]:\n        if 'secret-' in text: return text[text.index('secret-'):][:23]",
}

PROGRAMS = {**RESOURCES, **WAYS_OUT, **FORGERIES}


@dataclass
class World:
    """Files outside, which must stay as they are."""

    home: Path
    network: socket.socket
    local: socket.socket

    @property
    def port(self) -> int:
        return int(self.network.getsockname()[1])

    def reached(self) -> bool:
        for listener in (self.network, self.local):
            try:
                listener.accept()
            except BlockingIOError:
                continue
            return True
        return False


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("LIGHTRL_TEST_SECRET", SECRET)
    (tmp_path / "canary").write_text(SECRET)
    with socket.create_server(("127.0.0.1", 0)) as network, socket.socket(socket.AF_UNIX) as local:
        local.bind(f"\0lightrl-test-{network.getsockname()[1]}")
        local.listen()
        network.setblocking(False)
        local.setblocking(False)
        yield World(tmp_path, network, local)


def left_running() -> list[str]:
    """Processes of these tests that still run; the limit on memory is the mark they are known by."""
    mark = f'"RLIMIT_AS": {MEMORY_MB * 1024 * 1024}'.encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark in path.read_bytes() and int(path.parent.name) != os.getpid():
                found.append(path.parent.name)
        except OSError:
            continue
    return found


@pytest.fixture(scope="module")
def reward() -> UnitTests:
    return UnitTests(limit_s=SECONDS, limit_memory_mb=MEMORY_MB, limit_disk_mb=DISK_MB, limit_output_kb=64)


@pytest.mark.usefixtures("sandboxed")
class TestHostile:
    @pytest.mark.parametrize("name", PROGRAMS)
    def test_it_ends_and_changes_nothing(self, name: str, world: World, request: pytest.FixtureRequest) -> None:
        program = PROGRAMS[name].replace("HOME", str(world.home)).replace("PORT", str(world.port)).replace("PID", str(os.getpid()))
        start = time.monotonic()
        score = request.getfixturevalue("reward").score(Prompt(id="p", text="?"), program, tests=TESTS)
        assert score == 0.0
        assert time.monotonic() - start < SECONDS + 30.0  # it is ended, however busy the machine is
        assert [path.name for path in world.home.iterdir()] == ["canary"]
        assert (world.home / "canary").read_text() == SECRET
        assert not world.reached()
        patience = time.monotonic() + 2.0
        while left_running() and time.monotonic() < patience:
            time.sleep(0.02)
        assert left_running() == []

    def test_these_tests_can_be_passed(self, request: pytest.FixtureRequest) -> None:
        reward = request.getfixturevalue("reward")
        assert reward.score(Prompt(id="p", text="?"), "def f(x): return 'escaped'", tests=TESTS) == 1.0

    def test_a_program_that_prints_for_ever_is_stopped(self, request: pytest.FixtureRequest) -> None:
        start = time.monotonic()
        pairs = [{"input": "", "output": "x"}]
        assert request.getfixturevalue("reward").score(Prompt(id="p", text="?"), "while True: print('x')", tests=pairs) == 0.0
        assert time.monotonic() - start < SECONDS + 30.0  # it is ended, however busy the machine is

    def test_a_script_sees_no_expected_output(self, request: pytest.FixtureRequest) -> None:
        program = (
            SEARCH + "\nimport os, sys\nprint(f(1))\nprint(set(os.environ) - {'LC_CTYPE', 'PWD', 'PYTHONHASHSEED'})\nprint(sys.argv)\n"
        )
        pairs = [{"input": "", "output": SECRET}, {"input": "7", "output": "None\nset()\n['program.py']"}]
        assert request.getfixturevalue("reward").score(Prompt(id="p", text="?"), program, tests=pairs) == 0.5

    def test_inputs_cannot_be_changed_to_what_passes(self, request: pytest.FixtureRequest) -> None:
        program = "def f(x):\n    x.clear()\n    return []"
        score = request.getfixturevalue("reward").score
        assert score(Prompt(id="p", text="?"), program, tests="x = [3, 1]\nassert f(x) == sorted(x)") == 0.0

    def test_an_exit_is_no_expected_exception(self, request: pytest.FixtureRequest) -> None:
        tests = "try:\n    f(1)\n    ok = False\nexcept Exception:\n    ok = True\nassert ok"
        score = request.getfixturevalue("reward").score
        assert score(Prompt(id="p", text="?"), "import os\ndef f(x): os._exit(1)", tests=tests) == 0.0
        assert score(Prompt(id="p", text="?"), "def f(x): raise ValueError('no')", tests=tests) == 1.0

    def test_a_module_that_judges_is_not_the_programs(self, request: pytest.FixtureRequest) -> None:
        program = "class math:\n    isclose = staticmethod(lambda *a: True)\ndef f(x): return 0"
        score = request.getfixturevalue("reward").score
        assert score(Prompt(id="p", text="?"), program, tests=["assert math.isclose(f(1), 5.0)"]) == 0.0
