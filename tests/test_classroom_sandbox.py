"""The sandbox itself: what a process in it can do, in bubblewrap as root and not, and with limits alone."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from attnlab.classroom.assignments import look_up
from attnlab.classroom.intake.submissions import Cell
from attnlab.classroom.sandbox import isolation, judging, sandbox
from attnlab.classroom.sandbox.isolation import Limits
from attnlab.classroom.sandbox.sandbox import ROOM, Sandbox, SandboxError

(EXERCISE,) = look_up(["1.1"])[0]
QUICK = Limits(seconds=2, memory=2**29, processes=16, disk=2**20)
SECRET = "a neighbour's answer 4711"


@pytest.fixture(scope="module")
def wrapped():
    with Sandbox(["numpy"], bubblewrap=True) as one:
        yield one


def said(one: Sandbox, source: str, limits: Limits = QUICK) -> str:
    """What the code says with `say(…)`: a sandbox tells no more than a fault's words."""
    lines = "said = []\ndef say(*things):\n    said.append(' '.join(map(str, things)))\n"
    source = f"{lines}{textwrap.dedent(source)}\nraise ValueError('|'.join(said)[:480])"
    handed = SimpleNamespace(cells=[Cell(0, source, "1.1", "answer")])
    told = judging.observed(handed, [EXERCISE], one, limits)
    return told.ended_cells.get(0) or told.faults[0][0].removeprefix("ValueError: ")


def test_bubblewrap_works_here_and_everything_is_on():
    assert sandbox.fault_of_bubblewrap() == ""
    assert [each.name for each in sandbox.protections() if not each.on] == []


def test_without_bubblewrap_it_says_what_is_off(monkeypatch):
    off = [each for each in sandbox.protections(bubblewrap=False) if not each.on]
    assert {"no network", "no files", "no neighbours"} <= {each.name for each in off}
    sandbox.fault_of_bubblewrap.cache_clear()
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: None)
    try:
        assert "apt install bubblewrap" in sandbox.fault_of_bubblewrap()
        assert all("not installed" in each.words for each in sandbox.protections() if each.name.startswith("no "))
    finally:
        sandbox.fault_of_bubblewrap.cache_clear()


def test_where_bubblewrap_does_not_work_it_says_why(monkeypatch, tmp_path):
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    sandbox.fault_of_bubblewrap.cache_clear()
    try:
        fault = sandbox.fault_of_bubblewrap()
        assert "uid map: Permission denied" in fault and "apparmor_restrict_unprivileged_userns" in fault
    finally:
        sandbox.fault_of_bubblewrap.cache_clear()


def test_a_submission_is_nobody_alone_and_without_rights(wrapped):
    words = said(
        wrapped,
        """
        import os, ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        say(os.getuid() != 0, os.getpid(), os.getppid(), os.listdir('/proc'), os.listdir('.'), os.getcwd())
        say([bool(libc.umount2(place, 2)) for place in (b'/proc', b'/scratch')])
        say([bool(libc.mount(b'none', b'/scratch', b'tmpfs', 0, None)), bool(libc.unshare(0x10000000))])
        say([bool(libc.umount2(place, 2)) for place in (b'/proc', b'/scratch')], os.listdir('/proc'))
        """,
    )
    first, unmounted, made, again = words.split("|")
    assert first == "True 1 0 [] [] /scratch"
    assert unmounted == "[True, True]" and made.startswith("[True, ")
    assert again == "[True, True] []"  # not even where it could make a namespace of its own


def test_nothing_of_the_one_before_is_left(wrapped):
    leaves = """
        import os
        open('left', 'w').write('here')
        open('/dev/shm/left', 'w').write('here')
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                while True: open('/scratch/again', 'w').write('here')
    """
    said(wrapped, leaves)
    sees = """
        import os, threading
        alive, own = [], {each.native_id for each in threading.enumerate()}
        for process in set(range(2, 400)) - own:
            try: os.kill(process, 0); alive.append(process)
            except ProcessLookupError: pass
        say(os.listdir('/scratch'), os.listdir('/dev/shm'), alive)
    """
    assert said(wrapped, sees) == "[] [] []"


def test_files_of_this_machine_are_not_there(wrapped, tmp_path):
    secret = tmp_path / "neighbour.ipynb"
    secret.write_text(SECRET)
    places = [
        str(secret),
        __file__,
        "/etc/passwd",
        "/etc/shadow",
        str(Path.home() / ".bashrc"),
        str(ROOM / "exercises/common.py"),
    ]
    words = said(
        wrapped,
        f"""
        import os, sys
        own = ('/usr/', sys.base_prefix, *(part for part in sys.path if 'packages' in part))
        for place in {places!r}:
            try: say(len(open(place).read()))
            except OSError as error: say(type(error).__name__)
        found = [os.path.join(folder, name) for folder, _, names in os.walk('/') for name in names
                 if not folder.startswith(own) and (name.endswith(('.ipynb', '.db')) or '/exercises/ch' in folder)]
        say(len(found), found[:3])
        """,
        Limits(seconds=60),
    ).split("|")
    assert set(words[:5]) <= {"FileNotFoundError", "PermissionError"}
    assert words[5] in ("0", "PermissionError")  # the texts of the registry: a device without content stands there
    assert words[6].startswith("0 "), words[6]


def test_references_cannot_be_imported(wrapped):
    words = said(
        wrapped,
        """
        import sys
        from attnlab.exercises import ch1_weights as ch1
        say(ch1.stable_softmax.check(), type(ch1.stable_softmax).__name__, hasattr(ch1.stable_softmax, '__wrapped__'))
        sys.meta_path = [each for each in sys.meta_path if type(each).__name__ != '_Registry']
        sys.modules.pop('attnlab.exercises.ch1_weights')
        try:
            from attnlab.exercises.ch1_weights import stable_softmax
            say('read')
        except ImportError: say('gone')
        """,
    )
    assert words == "None _Silent False|gone"


def test_nothing_outside_can_be_written_to(wrapped):
    words = said(
        wrapped,
        """
        import os, sys
        for place in ['/x', '/dev/x', '/usr/x', '/etc/x', sys.prefix + '/x', '/proc/x']:
            try: open(place, 'w'); say('WRITTEN ' + place)
            except OSError as error: say(type(error).__name__)
        open('x', 'w').write('its own')
        say(os.listdir('/scratch'))
        """,
    ).split("|")
    assert set(words[:-1]) <= {"OSError", "PermissionError"} and words[-1] == "['x']"


def test_nobody_can_be_called(wrapped):
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as named:
        named.bind("\0attnlab-abstract")
        named.listen()
        arrived = []

        def accept():
            with contextlib.suppress(OSError):
                arrived.append(server.accept())

        listener = threading.Thread(target=accept, daemon=True)
        listener.start()
        words = said(
            wrapped,
            f"""
            import socket
            there = {{socket.AF_INET: ('127.0.0.1', {server.getsockname()[1]}), socket.AF_UNIX: '\\0attnlab-abstract'}}
            for kind, where in there.items():
                try:
                    one = socket.socket(kind); one.settimeout(1); one.connect(where); say('CONNECTED')
                except OSError as error: say(type(error).__name__)
            for number in range(1, 9):
                try: say(socket.if_indextoname(number))
                except OSError: pass
            """,
        )
        server.shutdown(socket.SHUT_RDWR)
        listener.join(2)
    assert "CONNECTED" not in words and words.count("|") == 2
    assert words.endswith("|lo")
    assert arrived == []


def test_only_sockets_of_files_and_of_addresses_are_to_be_had(wrapped):
    """Others reach past a network of its own (the machine below a virtual one), or deep into the kernel."""
    words = said(
        wrapped,
        """
        import errno, socket
        for family in range(60):
            for kind in (1, 2, 3, 5):
                try: socket.socket(family, kind).close(); say(family); break
                except OSError as error: refused = error.errno
            else:
                if refused != errno.EAFNOSUPPORT: say('other', family, refused)
        for family in (1, 16, 40):
            try: socket.socketpair(family); say('pair', family)
            except OSError as error: say(error.errno == errno.EAFNOSUPPORT)
        """,
    ).split("|")
    assert "1" in words and set(words[:-3]) <= {"1", "2", "10", "other 10 97"}
    assert words[-3:] == ["pair 1", "True", "True"]


# What a process could hold beyond what the system counts as its own, and how that is refused; little of each is tried.
UNCOUNTED = {
    "a device that is shared": ("No such device", "mmap.mmap(os.open('/dev/zero', os.O_RDWR), 4096)"),
    "any device": (
        "none",
        """
        for name in os.listdir('/dev'):
            try: mmap.mmap(os.open('/dev/' + name, os.O_RDWR | os.O_NONBLOCK), 4096); break
            except (OSError, ValueError): pass
        else: say('none')""",
    ),
    "memory that is shared": ("not permitted", "mmap.mmap(-1, 4096)"),
    "large pages": ("not permitted", "mmap.mmap(-1, 2**21, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000)"),
    "memory that is swapped out": (
        "Invalid argument",
        "mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).madvise(21)",
    ),
    "pages in a pipe": (
        "not permitted",
        """
        libc, place = ctypes.CDLL(None, use_errno=True), ctypes.create_string_buffer(b'x', 4096)
        vector = (ctypes.c_void_p * 2)(ctypes.addressof(place), 4096)
        if libc.vmsplice(os.pipe()[1], vector, 1, 0) < 0: say(os.strerror(ctypes.get_errno()))""",
    ),
    "a pipe's pages in another": (
        "not permitted",
        """
        libc, (first, into), (_, other) = ctypes.CDLL(None, use_errno=True), os.pipe(), os.pipe()
        os.write(into, b'x')
        if libc.tee(first, other, 1, 0) < 0: say(os.strerror(ctypes.get_errno()))""",
    ),
}


@pytest.mark.parametrize("kind", UNCOUNTED)
def test_no_memory_is_had_that_is_in_nobodys_account(wrapped, kind):
    refused, tried = UNCOUNTED[kind]
    assert refused in said(wrapped, f"import ctypes, mmap, os\n{textwrap.dedent(tried)}")


def test_what_honest_code_does_with_processes_and_devices_works(wrapped):
    words = said(
        wrapped,
        """
        import multiprocessing, os, shutil, socket, subprocess
        def twice(x): return 2 * x
        with multiprocessing.Pool(2) as pool: say(pool.map(twice, [1, 2]))
        say(subprocess.run(['cat'], input=b'said', capture_output=True).stdout, os.listdir('/dev/shm'))
        with open('/dev/zero', 'rb') as file: say(file.read(3))
        open('one', 'wb').write(bytes(9)), shutil.copy('one', 'two'), say(os.path.getsize('two'))
        say(socket.getaddrinfo('127.0.0.1', 80)[0][4])
        """,
    )
    assert words == r"[2, 4]|b'said' []|b'\x00\x00\x00'|9|('127.0.0.1', 80)"


def test_copies_of_the_references_are_hidden_wherever_they_can_be_seen(tmp_path, monkeypatch):
    lib = ["lib/python3.11/site", "lib64/python3/dist", "local/lib/python3.11/dist", "envs/other/lib/python3.12/site"]
    chapters = {tmp_path / f"{each}-packages/attnlab/exercises/ch1_weights" for each in lib}
    for each in chapters:
        each.mkdir(parents=True)
    monkeypatch.setattr(sandbox, "pythons", lambda: [tmp_path])
    assert {each for each in sandbox.references() if tmp_path in each.parents} == chapters


def test_nothing_is_shown_but_what_is_said_to_be_shown():
    command = sandbox._bubblewrap()
    bound = {command[i + 1] for i, part in enumerate(command) if "bind" in part} - {os.devnull, "/dev/full"}
    assert bound == {str(each) for each in sandbox.shown()} and "/usr" in bound


LIMITED = {
    "memory at once": ("import numpy as np; np.ones(50 * 2**30 // 8)", "MemoryError"),
    "memory bit by bit": ("kept = []\nwhile True: kept.append(bytearray(2**20))", "MemoryError"),
    "one large file": ("with open('x', 'wb') as file:\n    while True: file.write(bytes(2**16))", "OSError"),
    "files in shared memory": (
        "open('/dev/shm/x', 'wb').write(bytes(2**19)); open('y', 'wb', 0).write(bytes(2**19))\n"
        "open('z', 'wb', 0).write(bytes(2**19))",
        "No space left",
    ),
    "memory of all, after it has hung up": (
        "import os, time\nfor _ in range(6):\n    if os.fork() == 0:\n        os.closerange(3, 1024); time.sleep(0.5)\n"
        "        kept = [bytearray(b'x') * 2**23 for _ in range(30)]\n        time.sleep(60)\n"
        "os.closerange(3, 1024); time.sleep(60)",
        "was killed, perhaps for the memory",
    ),
    "many files": ("for i in range(10**6): open(str(i), 'w').close()", "OSError"),
    "open files": ("kept = [open('/dev/null') for _ in range(10**4)]", "OSError"),
    "processes": (
        "import os\nfor _ in range(10**4):\n    if os.fork() == 0:\n        while True: pass",
        "BlockingIOError",
    ),
    "threads": (
        "import threading\nwait = threading.Event().wait\n"
        "for _ in range(10**4): threading.Thread(target=wait, daemon=True).start()",
        "RuntimeError: can't start new thread",
    ),
    "raising the limits": (
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (2**50, 2**50))",
        "not allowed to raise",
    ),
    "time in Python": ("while True: pass", "still running after 2 seconds"),
    "time in Python, held on to": (
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "stopped",
    ),
    "time in C": ("import itertools; sum(itertools.repeat(1))", "did not come to an end"),
    "a crash": ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
    "an end": ("import os; os._exit(0)", "exit status 0"),
    "everything else ended": ("import os; os.kill(-1, 9)", "ProcessLookupError"),
    "its parent ended": ("import os; os.kill(os.getppid(), 9); say('alone')", ""),
    "silence": ("import os; os.closerange(3, 99); import time; time.sleep(60)", "stopped"),
}


@pytest.mark.parametrize("kind", LIMITED)
def test_limits_hold_and_the_next_one_finds_everything_well(wrapped, kind):
    source, words = LIMITED[kind]
    assert words in said(wrapped, source)
    assert said(wrapped, "say('well')") == "well"


def test_no_process_is_left_behind():
    before = {each.pid for each in psutil.Process().children(recursive=True)}
    with Sandbox(["numpy"], bubblewrap=True) as one:
        said(
            one, "import os\nfor _ in range(5):\n    if os.fork() == 0:\n        os.setsid()\n        while True: pass"
        )
    assert {each.pid for each in psutil.Process().children(recursive=True)} == before


def test_random_numbers_are_the_same_in_every_run(wrapped):
    source = "import random, numpy as np\nsay(random.random(), np.random.rand(), hash('text'))"
    assert said(wrapped, source) == said(wrapped, source)


# ---- without bubblewrap ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bare():
    with Sandbox(["numpy"], bubblewrap=False) as one:
        yield one


# Root is exempt from the limit on processes, and os.kill(-1) would end everything: those are bubblewrap's to prevent.
BUBBLEWRAPS = ("processes", "threads", "everything else ended", "its parent ended", "many files", "one large file")
BUBBLEWRAPS += ("files in shared memory", "memory of all, after it has hung up")
HARMLESS = [kind for kind in LIMITED if kind not in BUBBLEWRAPS]


@pytest.mark.parametrize("kind", HARMLESS)
def test_limits_hold_without_bubblewrap_too(bare, kind):
    source, words = LIMITED[kind]
    assert words in said(bare, source)
    assert said(bare, "say('well')") == "well"


def test_what_it_started_is_ended_without_bubblewrap_too(bare):
    source = """
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0: time.sleep(3600)
            os._exit(0)
        os.wait()
        say('started')
    """
    assert said(bare, source) == "started"
    said(bare, "pass")
    (worker,) = [
        each
        for each in psutil.Process().children()
        if "attnlab.classroom.sandbox.worker" in " ".join(each.cmdline()) and each.name() != "bwrap"
    ]
    assert worker.children(recursive=True) == []


# ---- as another user ------------------------------------------------------------------------------------------------

AS_SOMEBODY = """
import json, sys
sys.path.insert(0, {tests!r})
import test_classroom_sandbox as here
from attnlab.classroom.sandbox import sandbox
found = {{"fault": sandbox.fault_of_bubblewrap()}}
with sandbox.Sandbox(["numpy"], bubblewrap=True) as one:
    for kind, (source, words) in here.LIMITED.items():
        found[kind] = words in here.said(one, source) and here.said(one, "say('well')") == "well"
    found["files"] = here.said(one, "import os; say(os.listdir('/scratch'), os.path.exists({secret!r}))")
print(json.dumps(found))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="not root: every test above has run as somebody else already")
def test_all_of_it_as_a_user_without_rights(tmp_path):
    """As root started it the tests above ran; here the same limits, for somebody who is not root."""
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    shown = dict.fromkeys([sys.base_prefix, sys.prefix, str(Path(__file__).parent), str(ROOM)])
    view = ["bwrap", "--dev-bind", "/", "/"]
    for place in shown:  # readable for everybody, wherever the checkout lies
        closed = [each for each in Path(place).parents if not os.stat(each).st_mode & 0o001]
        if closed:
            view += ["--tmpfs", str(closed[-1]), "--chmod", "0755", str(closed[-1])]
            view += [part for each in reversed(closed[:-1]) for part in ("--dir", str(each))]
            beside = [each for each in Path(place).parents if closed[-1] in each.parents and each not in closed]
            view += [part for each in reversed(beside) for part in ("--dir", str(each))]
        view += ["--bind", place, place]
    code = AS_SOMEBODY.format(tests=str(Path(__file__).parent), secret=str(secret))
    command = [*view, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, cwd="/", env=os.environ | {"HOME": "/tmp"}
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.pop("fault") == "" and found.pop("files") == "[] False"
    assert {kind for kind, held in found.items() if not held} == set()


# ---- faults of the sandbox ------------------------------------------------------------------------------------------


def test_a_sandbox_that_ended_says_so():
    one = Sandbox([], bubblewrap=True)
    one._process.kill()
    with pytest.raises(SandboxError):
        one.start(QUICK)
    one.close()


def test_a_module_that_is_missing_is_told():
    with Sandbox(["numpy", "no_such_module"], bubblewrap=True) as one:
        assert one.missing == ["no_such_module"]


def test_limits_are_the_ones_that_were_set():
    assert isolation.Limits() == Limits(seconds=10, memory=2 * 2**30, processes=32, files=64, disk=16 * 2**20)
