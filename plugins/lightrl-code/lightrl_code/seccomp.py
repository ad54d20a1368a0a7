"""A system-call filter: no further processes, no tracing, no memory that limits do not count, no parts of the kernel best left alone.

It makes the limits of one process those of the whole sandbox, also where the kernel exempts root from the limit of processes.
"""

import platform
import struct

EPERM, ENOSYS = 1, 38
_LOAD, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_CLONE_THREAD = 0x10000
_X32 = 0x40000000

_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE3 = 435
# the same numbers on every architecture
_COMMON = {
    "pidfd_getfd": 438, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "mount_setattr": 442, "memfd_secret": 447,
}  # fmt: skip
_REFUSED = {
    "x86_64": {
        "fork": 57, "vfork": 58, "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312,
        "memfd_create": 319, "shmget": 29, "semget": 64, "msgget": 68, "mq_open": 240, "socket": 41,
        "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "unshare": 272, "setns": 308,
        "keyctl": 250, "add_key": 248, "request_key": 249, "bpf": 321, "userfaultfd": 323, "perf_event_open": 298,
        "init_module": 175, "finit_module": 313, "delete_module": 176, "kexec_load": 246, "kexec_file_load": 320,
    },
    "aarch64": {
        "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272,
        "memfd_create": 279, "shmget": 194, "semget": 190, "msgget": 186, "mq_open": 180, "socket": 198,
        "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "unshare": 97, "setns": 268,
        "keyctl": 219, "add_key": 217, "request_key": 218, "bpf": 280, "userfaultfd": 282, "perf_event_open": 241,
        "init_module": 105, "finit_module": 273, "delete_module": 106, "kexec_load": 104, "kexec_file_load": 294,
    },
}  # fmt: skip


def program(machine: str | None = None) -> bytes:
    """The filter as `struct sock_filter`s, for `bwrap --seccomp`.

    Args:
        machine: the architecture as `platform.machine` names it; None: this one.

    Raises:
        ValueError: there is no filter for this architecture.
    """
    machine = machine or platform.machine()
    if machine not in _AUDIT:
        raise ValueError(f"there is no system-call filter for {machine}, only for {', '.join(_AUDIT)}")
    code = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_JUMP_EQUAL, _AUDIT[machine], then=1),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
        # the second numbering of x86_64, which would go round the list
        _step(_JUMP_GREATER_EQUAL, _X32, otherwise=1),
        _step(_RETURN, _KILL),
        # the C library falls back to clone, whose flags can be seen
        _step(_JUMP_EQUAL, _CLONE3, otherwise=1),
        _step(_RETURN, _REFUSE | ENOSYS),
    ]
    for number in sorted([*_COMMON.values(), *_REFUSED[machine].values()]):
        code += [_step(_JUMP_EQUAL, number, otherwise=1), _step(_RETURN, _REFUSE | EPERM)]
    code += [
        _step(_JUMP_EQUAL, _CLONE[machine], otherwise=3),
        _step(_LOAD, _FIRST_ARGUMENT),
        _step(_JUMP_BITS, _CLONE_THREAD, then=1),
        _step(_RETURN, _REFUSE | EPERM),
        _step(_RETURN, _ALLOW),
    ]
    return b"".join(code)


def _step(what: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", what, then, otherwise, value)
