"""Runs one task in a process that was forked for it, answers over its own connection, and ends."""
import ast
import asyncio
import faulthandler
import fcntl
import importlib
import inspect
import io
import json
import linecache
import os
import re
import socket
import struct
import sys
import traceback
import types

from to_json import NotJson, to_json

EXIT_LOST = 71
LONG_INTEGER = re.compile("[0-9]{16}")
FILE = "<task>"
MAX_FRAMES = 20
MAX_MESSAGE = 4000
MAX_CAUSES = 5
WHOLE_INPUT = ("input", "args", "input_data")


class Ended(Exception):
    """Why there is no result, in the words of the answer."""

    def __init__(self, **answer):
        super().__init__()
        self.answer = answer


def serve_one(folder):
    pid = os.getpid()
    streams = [open_stream(os.path.join(folder, "%d.%s" % (pid, name))) for name in ("out", "err")]
    connection = connect(os.path.join(folder, "s"))
    connection.sendall(frame({"pid": pid}))
    request = receive(connection)
    if request is None:
        os._exit(0)
    for target, fd in enumerate(streams, start=1):
        os.dup2(fd, target)
        os.close(fd)
    sys.stdout, sys.stderr = text_stream(1), text_stream(2)
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.FileIO(0, "r", closefd=False))
    faulthandler.enable(file=2)
    os.environ.update(request["env"])
    answer = run(request)
    if os.getpid() != pid:
        # The task forked and its child came back here. Only one of the two may answer.
        os._exit(0)
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            stream.flush()
        except Exception:
            pass
    # The output ends before the answer is given, so that nobody has to wait for the end of this process.
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (1, 2):
        os.dup2(nothing, fd)
    try:
        connection.sendall(answer)
    except OSError:
        os._exit(EXIT_LOST)
    # Not sys.exit: threads that the task left behind, or its exit handlers, could hold the process for ever.
    os._exit(0)


def open_stream(path):
    os.mkfifo(path, 0o600)
    # Open for reading too, so that opening does not wait for the other side; that side finds a writer when it comes.
    fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    os.set_blocking(fd, True)
    return fd


def connect(path):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(path)
    try:
        # High up, where a program that closes or reuses the first few numbers does not meet it.
        high = fcntl.fcntl(connection.fileno(), fcntl.F_DUPFD_CLOEXEC, 200)
        connection.close()
        return socket.socket(fileno=high)
    except OSError:
        return connection


def text_stream(fd):
    return io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(fd, "w", closefd=False)),
        encoding="utf-8",
        errors="backslashreplace",
        line_buffering=True,
    )


def frame(message):
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack(">I", len(body)) + body


def receive(connection):
    header = exactly(connection, 4)
    body = header and exactly(connection, struct.unpack(">I", header)[0])
    return read_json(body.decode()) if body else None


def read_json(text):
    # Every number of the sender is a double. One that looks like a large integer must not become an exact one here,
    # with digits that it never had. The hook slows reading down, so it is used only where such a number may be.
    if LONG_INTEGER.search(text):
        return json.loads(text, parse_int=lambda digits: int(digits) if len(digits) < 16 else float(digits))
    return json.loads(text)


def exactly(connection, size):
    buffer = bytearray(size)
    view, filled = memoryview(buffer), 0
    while filled < size:
        count = connection.recv_into(view[filled:])
        if count == 0:
            return None
        filled += count
    return buffer


def run(request):
    """The answer as bytes ready to send; whatever the task does, there is one."""
    try:
        limit_memory(request.get("memory_bytes"))
        text = '{"result":%s}' % to_json(result_of(request))
        if len(text) > request["max_result_bytes"]:
            raise Ended(refused="RESULT_TOO_LARGE", message="the result has %d bytes" % len(text))
        return frame(text.encode())
    except Ended as ended:
        return frame(ended.answer)
    except NotJson as error:
        return frame({"refused": "RESULT_NOT_JSON", "message": "the result%s %s" % (place(error), error.reason)})
    except BaseException as error:
        if isinstance(error, MemoryError):
            limit_memory(None)
        return frame(describe(error))


def place(error):
    return " at %s" % error.path if error.path else ""


def limit_memory(size):
    try:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        # The soft limit only, so that an answer can still be made after the task met it.
        resource.setrlimit(resource.RLIMIT_AS, (hard if size is None else size, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    except (ImportError, ValueError, OSError):
        pass


def result_of(request):
    code, variables = request["code"], request["variables"]
    linecache.cache[FILE] = (len(code), None, code.splitlines(True), FILE)
    tree = ast.parse(code, FILE)
    calls_main = any(defines_main(node) for node in tree.body)
    # Where we call main ourselves, a block for `__name__ == "__main__"` must not call it first.
    module = types.ModuleType("__task__" if calls_main else "__main__")
    sys.modules[module.__name__] = sys.modules["__main__"] = module
    space = module.__dict__
    import_libs(request["libs"], space)
    space.update(variables)
    given = variables.get("result")
    try:
        exec(compile(tree, FILE, "exec", dont_inherit=True), space)
        result = space.get("result")
        main = space.get("main")
        if result is not None and result is not given or not calls_main or not callable(main):
            return result
        result = main(**arguments(main, variables))
        return asyncio.run(result) if inspect.iscoroutine(result) else result
    except SystemExit as error:
        if error.code in (None, 0):
            return space.get("result")
        raise


def defines_main(node):
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return node.name == "main"
    return isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "main" for t in node.targets)


def import_libs(libs, space):
    for alias, module in libs.items():
        try:
            if isinstance(module, dict):
                imported = importlib.import_module(module["from"])
                name = module["import"]
                space[alias] = (
                    getattr(imported, name)
                    if hasattr(imported, name)
                    else importlib.import_module("%s.%s" % (module["from"], name))
                )
            else:
                imported = importlib.import_module(module)
                # As the statement does: `import a.b` binds a.
                top = alias == module and "." in module
                space[module.split(".")[0] if top else alias] = (
                    sys.modules[module.split(".")[0]] if top else imported
                )
        except ImportError as error:
            message = "the library %r cannot be imported: %s; install it into the environment of the worker" % (
                module,
                scrub(str(error)),
            )
            raise Ended(**describe(error, message))


def arguments(main, variables):
    chosen, rest = {}, dict(variables)
    takes_rest = False
    for name, parameter in inspect.signature(main).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_rest = True
        elif parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            continue
        elif name in variables:
            chosen[name] = rest.pop(name)
        elif name in WHOLE_INPUT:
            chosen[name] = variables
        elif parameter.default is parameter.empty:
            have = ", ".join(sorted(variables)) or "nothing"
            raise TypeError("main() needs %r, which the input does not have; it has: %s" % (name, have))
    return {**chosen, **rest} if takes_rest else chosen


def describe(error, message=None):
    if isinstance(error, SystemExit):
        message = "the program called sys.exit(%r)" % (error.code,)
    return {
        "exception": type(error).__qualname__,
        "module": type(error).__module__,
        "message": scrub(message or text_of(error)),
        "retryable": is_retryable(error),
        "traceback": frames(error),
        "causes": causes(error),
    }


def is_retryable(error):
    stated = getattr(error, "retryable", None)
    return stated if isinstance(stated, bool) else isinstance(error, (ConnectionError, TimeoutError))


def text_of(error):
    if isinstance(error, SyntaxError):
        # Its own text repeats the file and the line, which the traceback holds.
        return error.msg or "invalid syntax"
    try:
        return str(error) or type(error).__qualname__
    except Exception:
        return type(error).__qualname__


def frames(error):
    """Where in the task's own code it happened; frames of libraries would show paths of the host."""
    if isinstance(error, SyntaxError) and error.filename == FILE:
        return [{"line": error.lineno or 0, "in": "<module>", "code": (error.text or "").strip()[:200]}]
    own = [
        {"line": line, "in": at.f_code.co_name, "code": linecache.getline(FILE, line).strip()[:200]}
        for at, line in traceback.walk_tb(error.__traceback__)
        if at.f_code.co_filename == FILE
    ]
    return own[-MAX_FRAMES:]


def causes(error):
    found, seen = [], {id(error)}
    while len(found) < MAX_CAUSES:
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if error is None or id(error) in seen:
            break
        seen.add(id(error))
        found.append({"exception": type(error).__qualname__, "message": scrub(text_of(error))})
    return found


def scrub(text):
    """Without the places where this host keeps its Python."""
    for path in sorted({sys.prefix, sys.base_prefix, sys.exec_prefix, os.path.dirname(os.__file__)}, key=len, reverse=True):
        if len(path) > 4:
            text = text.replace(path, "<python>")
    return text[:MAX_MESSAGE]
