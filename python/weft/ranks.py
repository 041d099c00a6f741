# SPDX-License-Identifier: Apache-2.0
"""Groups of ranks, and how they talk: MPI through mpi4py's communicators, torch's process groups, NCCL, and threads of this process.

A group has a transport, which is a table of functions that the library calls: those of libweft_mpi or of the library's threads, or
callbacks that hand messages to torch. No exception leaves a callback: it becomes a status, and is raised again behind the library's call.
"""

from __future__ import annotations

import atexit
import ctypes
import datetime
import functools
import os
import queue
import sys
import threading
import time
from ctypes import CFUNCTYPE, POINTER, byref, c_int, c_int32, c_size_t, c_void_p, cast
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from . import _c
from .errors import Failed, Invalid, NotFound, Unsupported

_FAILED, _GATHER = 6, 7063  # enum weft_status; the last of the tags that include/weft/dist.h sets aside
_MESSAGE = POINTER(_c.Message)
_BEGIN = CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_int32, c_int32, POINTER(c_void_p), _MESSAGE)
_TEST = CFUNCTYPE(c_int, c_void_p, c_void_p, POINTER(c_int32), _MESSAGE)
_CANCEL = CFUNCTYPE(c_int32, c_void_p, c_void_p)


class Part(NamedTuple):
    """Memory that goes to a rank or comes from it."""

    pointer: int
    size: int
    rank: int


class Group:
    """Some ranks, of which this process (or thread) is one. One call at a time talks: `lock` sees to that.

    >>> group = weft.dist.Threads(3).rank(1)
    >>> group.rank, group.size
    (1, 3)
    """

    def __init__(self, transport: _c.Transport):
        self.transport, self.rank, self.size = transport, transport.rank, transport.size
        self.lock = threading.Lock()
        self.raised: Optional[BaseException] = None  # by a callback

    def call(self, function: Any, *arguments: Any) -> None:
        """Calls the library, which talks to the other ranks."""
        with self.lock:
            self.raised = None
            try:
                _c.call(function, *arguments)
            except Failed as error:
                if self.raised is not None and not isinstance(self.raised, Exception):
                    raise self.raised  # such as KeyboardInterrupt
                raise error from self.raised

    def trade(self, sends: Sequence[Part], receives: Sequence[Part], seconds: float) -> None:
        """Sends and receives memory; all ranks do so together."""
        t = self.transport
        if t.on_device == _c.DEVICE_MEMORY:
            raise Unsupported("the group sends GPUs' memory only: give it words, a group of the same ranks for the host's")
        test, cancel = cast(t.test, _TEST), cast(t.cancel, _CANCEL)
        message, open_requests = _c.Message(), []
        with self.lock:
            self.raised = None
            status = 0
            for begin, parts in ((cast(t.receive, _BEGIN), receives), (cast(t.send, _BEGIN), sends)):
                for part in parts:
                    request = c_void_p()
                    status = status or begin(t.self, part.pointer, part.size, part.rank, _GATHER, byref(request), byref(message))
                    if request:
                        open_requests.append((request, part.rank))
            end = time.monotonic() + seconds
            while open_requests and not status and time.monotonic() < end:
                left = []
                for request, rank in open_requests:
                    done = c_int32()
                    wrong = test(t.self, request, byref(done), byref(message))
                    status = status or wrong
                    if not done.value and not wrong:
                        left.append((request, rank))
                if len(left) == len(open_requests):
                    time.sleep(1e-4)
                open_requests = left
            for request, _ in open_requests:
                cancel(t.self, request)
        if status:
            raise Failed(message.text.decode(errors="replace")) from self.raised
        if open_requests:
            raise Failed(f"ranks {sorted({rank for _, rank in open_requests})} have not answered for {seconds:g} s")


class Threads:
    """Ranks that are threads of this process, for tests and first steps: Threads(4).rank(i) is the group of the i-th.

    torch computes all gradients on one GPU in one thread of its own, where ranks would wait for each other for ever: ranks that
    share a GPU call backward() under torch.autograd.set_multithreading_enabled(False), which leaves it to their own threads.

    >>> weft.dist.Threads(3).rank(2).rank
    2
    """

    def __init__(self, size: int):
        self._handle = c_void_p()
        _c.call(_c.library.weft_threads_create, byref(self._handle), size)

    def __del__(self) -> None:
        if getattr(self, "_handle", None) and _c is not None:
            _c.library.weft_threads_destroy(self._handle)

    def rank(self, rank: int) -> Group:
        transport = _c.Transport()
        _c.call(_c.library.weft_threads_transport, self._handle, rank, byref(transport))
        group = Group(transport)
        group.threads = self  # type: ignore[attr-defined] # the transport points into it
        return group


# ---- NCCL ----


def nccl_id() -> bytes:
    """What the ranks of a new weft.dist.Nccl have in common: made at one of them, and brought to the others by the program.

    >>> try:
    ...     id = weft.dist.nccl_id()
    ... except weft.Error:  # NCCL is not here
    ...     id = None
    """
    made = ctypes.create_string_buffer(128)
    _c.call(_c.library.weft_nccl_id_make, made)
    return made.raw


class Nccl(Group):
    """Ranks by NCCL, each with a GPU; all make it together.

    id      what nccl_id() gave at one rank
    device  which GPU is this rank's
    words   a group of the same ranks that sends the host's memory: by it a rank that is lost is told from one that computes, and
            weft.dist.join() goes. None: there is none
    seconds after which a rank that has not come is given up

    >>> weft.dist.Nccl(0, 1, bytes(100))
    Traceback (most recent call last):
    weft.errors.Invalid: id has 100 bytes, not the 128 of weft.dist.nccl_id()
    """

    def __init__(self, rank: int, size: int, id: bytes, device: int = 0, *, words: Optional[Group] = None, seconds: float = 60.0):
        if len(id) != 128:
            raise Invalid(f"id has {len(id)} bytes, not the 128 of weft.dist.nccl_id()")
        self._handle, self._words, transport = c_void_p(), words, _c.Transport()
        known = ctypes.create_string_buffer(id, 128)
        options = _c.NcclOptions(ctypes.pointer(_c.Device(_c.CUDA, device)), None, cast(known, c_void_p), rank, size,
                                 None if words is None else ctypes.pointer(words.transport), seconds)  # fmt: skip
        _c.call(_c.library.weft_nccl_open, byref(self._handle), byref(options), byref(transport))
        super().__init__(transport)

    def __del__(self) -> None:
        if getattr(self, "_handle", None) and _c is not None:
            _c.library.weft_nccl_close(self._handle)

    def trade(self, sends: Sequence[Part], receives: Sequence[Part], seconds: float) -> None:
        (super() if self._words is None else self._words).trade(sends, receives, seconds)


# ---- MPI ----


@functools.lru_cache(maxsize=None)
def _mpi_library() -> ctypes.CDLL:
    """libweft_mpi: named by WEFT_MPI_LIBRARY, beside this file or beside the library, or where the system has it."""
    beside = [folder for folder in (_c.path_of("libweft_mpi.so"), os.path.join(os.path.dirname(_c.library._name), "libweft_mpi.so"))]
    names = [_c.variable("WEFT_MPI_LIBRARY"), *filter(os.path.exists, beside), "libweft_mpi.so"]
    for name in filter(None, names):
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        library.weft_mpi_ranks_open.argtypes = [POINTER(c_void_p), c_void_p, POINTER(_c.Transport), _MESSAGE]
        library.weft_mpi_ranks_close.argtypes, library.weft_mpi_ranks_close.restype = [c_void_p], None
        library.weft_mpi_library_version.restype = ctypes.c_char_p
        return library
    raise NotFound("there is no libweft_mpi, which talks by MPI: build weft where there is an MPI, or name it in WEFT_MPI_LIBRARY")


class Mpi(Group):
    """A communicator of mpi4py, of which the library makes a copy: all its processes do so together."""

    def __init__(self, comm: Any):
        from mpi4py import MPI

        self._library, self._handle, transport = _mpi_library(), c_void_p(), _c.Transport()
        theirs, ours = MPI.Get_library_version().strip("\0"), self._library.weft_mpi_library_version().decode()
        if theirs != ours:
            raise Unsupported(f"mpi4py is of {theirs.strip()} and libweft_mpi of {ours.strip()}: build weft with mpi4py's MPI")
        _c.call(self._library.weft_mpi_ranks_open, byref(self._handle), MPI._addressof(comm), byref(transport))
        super().__init__(transport)

    @staticmethod
    @functools.lru_cache(maxsize=None)
    def keyval() -> int:
        """The attribute of a communicator that holds its group, until it is freed."""
        from mpi4py import MPI

        return MPI.Comm.Create_keyval()


# ---- torch ----


_SMALL = 1024  # bytes: messages up to here have memory of their own, so that giving them up costs nobody else's


class _Request:
    """A message that torch is sending or receiving. `to` is where its bytes go when it has ended; None: they are there."""

    def __init__(self, work: Any, memory: Any, tensor: Any, peer: int, tag: int):
        self.work, self.memory, self.tensor, self.peer, self.tag = work, memory, tensor, peer, tag
        self.to: Optional[int] = None
        self.done, self.error = threading.Event(), None


_Requests = "queue.SimpleQueue[Optional[_Request]]"
_lost: List[_Request] = []  # what torch may still write to or read
_under_way: Set[_Request] = set()
_waiters: List[Tuple[threading.Thread, _Requests]] = []


def _wait_for(requests: _Requests) -> None:
    """Waits for messages of a peer, a tag and a direction, which end in their order: torch's is_completed() tells nothing of gloo."""
    while (request := requests.get()) is not None:
        try:
            request.work.wait()
        except BaseException as error:  # told by test()
            request.error = error
        request.done.set()
        _under_way.discard(request)


def _end_waiters() -> None:
    """A thread that comes out of torch when the interpreter is gone aborts the process, so all come out before. Waiting for a moment makes
    gloo close its connections, which ends what nobody has sent."""
    for _, requests in _waiters:
        requests.put(None)
    for request in list(_under_way):
        try:
            request.work.wait(datetime.timedelta(milliseconds=1))
        except Exception:
            continue
    for thread, _ in _waiters:
        thread.join(5)


atexit.register(_end_waiters)


class Torch(Group):
    """A process group of torch.distributed that takes tensors of the CPU, as gloo does."""

    def __init__(self, group: Any):
        import torch
        import torch.distributed as distributed

        self._torch, self._group = torch, group
        rank, size = distributed.get_rank(group), distributed.get_world_size(group)
        if not Torch.takes_host(group):
            raise Unsupported(f"the group's backend is {Torch.backend(group)}, which does not send the host's memory as gloo and mpi do")
        self._requests: Dict[int, _Request] = {}
        self._given_up: Dict[tuple, List[_Request]] = {}  # receives, which the next one takes over
        self._queues: Dict[tuple, Any] = {}
        self._next = 0
        self._callbacks = (_BEGIN(self._guarded(self._send)), _BEGIN(self._guarded(self._receive)), _TEST(self._guarded(self._test)),
                           _CANCEL(self._cancel))  # fmt: skip
        super().__init__(_c.Transport(None, rank, size, 0, *(cast(callback, c_void_p).value for callback in self._callbacks)))

    @staticmethod
    def backend(group: Any) -> str:
        import torch.distributed as distributed

        return str(distributed.get_backend_config(group) if hasattr(distributed, "get_backend_config") else distributed.get_backend(group))

    @staticmethod
    def takes_host(group: Any) -> bool:
        return any(name in Torch.backend(group) for name in ("gloo", "mpi"))

    def _guarded(self, function: Callable[..., None]) -> Callable[..., int]:
        def call(_self: Any, *arguments: Any) -> int:
            try:
                function(*arguments[:-1])
                return 0
            except BaseException as error:
                self.raised = self.raised or error
                if arguments[-1]:
                    arguments[-1].contents.text = f"{type(error).__name__}: {error}".encode()[:255]
                return _FAILED

        return call

    def _begin(self, function: Any, memory: Any, peer: int, tag: int) -> _Request:
        tensor = self._torch.frombuffer(memory, dtype=self._torch.uint8)
        begun = _Request(function([tensor], peer, tag), memory, tensor, peer, tag)
        key = (function.__name__, peer, tag)
        if key not in self._queues:
            self._queues[key] = queue.SimpleQueue()
            _waiters.append((threading.Thread(target=_wait_for, args=(self._queues[key],), daemon=True), self._queues[key]))
            _waiters[-1][0].start()
        _under_way.add(begun)
        self._queues[key].put(begun)
        return begun

    def _give(self, request: Any, begun: _Request) -> None:
        self._next += 1
        self._requests[self._next] = begun
        request[0] = self._next

    def _send(self, pointer: int, size: int, peer: int, tag: int, request: Any) -> None:
        if size > 0:
            kind = ctypes.c_char * size
            memory = kind.from_buffer_copy(kind.from_address(pointer)) if size <= _SMALL else kind.from_address(pointer)
            self._give(request, self._begin(self._group.send, memory, peer, tag))

    def _receive(self, pointer: int, size: int, peer: int, tag: int, request: Any) -> None:
        if size > 0:
            kind, earlier = ctypes.c_char * size, self._given_up.get((peer, tag, size))
            memory = kind() if size <= _SMALL else kind.from_address(pointer)
            begun = earlier.pop(0) if earlier else self._begin(self._group.recv, memory, peer, tag)
            begun.to = pointer if size <= _SMALL else None
            self._give(request, begun)

    def _test(self, number: int, done: Any) -> None:
        request = self._requests[number]
        done[0] = request.done.is_set()
        if done[0]:
            del self._requests[number]
            if request.error is not None:
                raise RuntimeError(f"a message to or from rank {request.peer}: {request.error}") from request.error
            if request.to is not None:
                ctypes.memmove(request.to, request.memory, len(request.memory))

    def _cancel(self, _self: Any, number: int) -> int:
        request = self._requests.pop(number)
        size = len(request.memory)
        if request.to is not None:
            self._given_up.setdefault((request.peer, request.tag, size), []).append(request)
        elif size > _SMALL and not request.done.is_set():
            _lost.append(request)  # torch takes nothing back
            return 0
        return 1


# ---- which of them ----

_torch_groups: Dict[tuple, Group] = {}  # by the process groups that they hold, and the GPU, where NCCL sends its memory


def spread(group: Any, made: Optional[bytes]) -> bytes:
    """What the first rank of a process group has made, at all of them."""
    import torch.distributed as distributed

    box = [made]
    distributed.broadcast_object_list(box, src=distributed.get_global_rank(group, 0), group=group)
    return box[0]  # type: ignore[return-value]


def _torch_group(group: Any, like: Any) -> Group:
    """A process group for tensors like one: by NCCL where it is on a GPU and the group's backend has NCCL. Other backends send what is on
    a GPU by way of the host."""
    import torch.distributed as distributed

    on_gpu = getattr(like, "is_cuda", False) and "nccl" in Torch.backend(group)
    key = (id(group), like.device.index if on_gpu else None)
    if key not in _torch_groups:
        rank = distributed.get_rank(group)
        words = _torch_group(group, None) if on_gpu and Torch.takes_host(group) else None
        _torch_groups[key] = (
            Nccl(rank, distributed.get_world_size(group), spread(group, nccl_id() if rank == 0 else None), like.device.index, words=words)
            if on_gpu else Torch(group)
        )  # fmt: skip
    return _torch_groups[key]


def group_of(group: Any, like: Any = None) -> Group:
    """The group that a caller means: one of these, a communicator, a process group; None: all processes, by torch for its tensors (and
    where torch.distributed is initialised), else by mpi4py."""
    if isinstance(group, Group):
        return group
    if isinstance(group, Threads):
        raise Invalid("group is weft.dist.Threads: give the group of this rank, group.rank(i)")
    module = type(group).__module__.partition(".")[0]
    torch = sys.modules.get("torch")
    if group is None:
        is_torch = type(like).__module__.partition(".")[0] == "torch"
        by_torch = torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized()
        if is_torch and not by_torch:
            raise Invalid("torch.distributed is not initialised: call init_process_group() first, or give a group")
        if not is_torch:
            try:
                from mpi4py import MPI
            except ImportError:
                raise Invalid("group is None, and there is no mpi4py: give a group") from None
            return group_of(MPI.COMM_WORLD)
        group = torch.distributed.group.WORLD
    elif module == "mpi4py":
        found = group.Get_attr(Mpi.keyval())
        if found is None:
            found = Mpi(group)
            group.Set_attr(Mpi.keyval(), found)
        return found
    if torch is not None and torch.distributed.is_available() and group is torch.distributed.GroupMember.NON_GROUP_MEMBER:
        raise Invalid("this process is none of the group's")
    if torch is None or not isinstance(group, torch.distributed.ProcessGroup):
        raise Invalid(f"group is a {type(group).__name__}, not a communicator of mpi4py, a process group of torch or a weft.dist.Threads' rank")
    return _torch_group(group, like)
