"""Keeps one warm interpreter and forks it for every task, so that a task costs a fork and shares nothing with another.

fd 3 is the control channel: `fork` and `kill PID` come in as lines, JSON lines go out. A child connects to the socket in
the folder by itself. When the channel ends, the process that started us is gone, and so is everything we started.
"""
import errno
import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import sys

CONTROL_FD = 3
OLDEST = (3, 8)
# Modules that most tasks import. They are loaded once here instead of in every task.
COMMON = (
    "asyncio base64 collections csv dataclasses datetime decimal enum functools hashlib inspect io itertools json "
    "linecache logging math pathlib random re ssl statistics subprocess tempfile threading time traceback "
    "urllib.parse urllib.request uuid"
).split()


def main():
    folder, preload = sys.argv[1], json.loads(sys.argv[2])
    own_folder = os.path.dirname(os.path.abspath(__file__))
    control = socket.socket(fileno=CONTROL_FD)
    control.set_inheritable(False)

    def send(message):
        try:
            control.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass  # The other side is gone; the end of the channel is noticed in the loop.

    if sys.version_info < OLDEST:
        send({"refused": "Python %d.%d is too old; 3.8 or newer is needed" % sys.version_info[:2]})
        return
    # No caches beside installed files, and tasks import from the environment of the user, not from our folder.
    sys.dont_write_bytecode = True
    path = [entry for entry in sys.path if os.path.realpath(entry or ".") != os.path.realpath(own_folder)]
    sys.path[:] = [own_folder]
    sys.path += path
    import run_task

    for name in ("run_task", "to_json"):
        del sys.modules[name]
    sys.path[:] = path
    sys.dont_write_bytecode = False
    for name in COMMON:
        try:
            importlib.import_module(name)
        except ImportError:
            pass  # Some builds leave modules out; a task that needs one says so.
    for name in preload:
        try:
            importlib.import_module(name)
        except Exception as error:
            send({"refused": "the module %r to preload cannot be imported: %s" % (name, error)})
            return
    gc.collect()
    # Collecting would touch, and so copy, the memory that all children share.
    gc.disable()
    gc.freeze()
    send({"ready": "%d.%d.%d" % sys.version_info[:3]})
    serve(control, folder, run_task, send)


def serve(control, folder, run_task, send):
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_read, False)
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    # Whoever presses Ctrl-C means the process that started us; it tells us by closing the channel.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    children = set()
    pending = b""
    while True:
        readable, _, _ = select.select([control.fileno(), wake_read], [], [])
        if wake_read in readable:
            drain(wake_read)
            reap(children, send)
        if control.fileno() not in readable:
            continue
        try:
            chunk = control.recv(65536)
        except OSError as error:
            if error.errno in (errno.EINTR, errno.EAGAIN):
                continue
            chunk = b""
        if not chunk:
            break
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            verb, _, argument = line.partition(b" ")
            if verb == b"kill":
                if int(argument) in children:
                    kill_group(int(argument))
            elif verb == b"fork":
                try:
                    pid = os.fork()
                except OSError as error:
                    send({"failed": errno.errorcode.get(error.errno, "EAGAIN")})
                    continue
                if pid == 0:
                    try:
                        become_task(control, (wake_read, wake_write), folder, run_task)
                    finally:
                        os._exit(run_task.EXIT_LOST)
                children.add(pid)
    for pid in children:
        kill_group(pid)
    shutil.rmtree(folder, ignore_errors=True)


def drain(fd):
    try:
        while os.read(fd, 4096):
            pass
    except BlockingIOError:
        pass


def reap(children, send):
    for pid in list(children):
        try:
            if hasattr(os, "waitid"):
                # Look without reaping: as long as the leader is a zombie its group's number cannot become another's.
                if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                    continue
                kill_group(pid)
                _, status = os.waitpid(pid, 0)
            else:
                gone, status = os.waitpid(pid, os.WNOHANG)
                if gone == 0:
                    continue
                kill_group(pid)
        except ChildProcessError:
            status = 0
        children.discard(pid)
        if os.WIFSIGNALED(status):
            try:
                name = signal.Signals(os.WTERMSIG(status)).name
            except ValueError:
                name = "SIG%d" % os.WTERMSIG(status)
            send({"exit": pid, "signal": name})
        else:
            send({"exit": pid, "code": os.WEXITSTATUS(status)})


def kill_group(pid):
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        # Not yet a group of its own: it was forked a moment ago.
        try:
            os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass


def become_task(control, wake_fds, folder, run_task):
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    control.close()
    for fd in wake_fds:
        os.close(fd)
    gc.enable()
    run_task.serve_one(folder)


if __name__ == "__main__":
    main()
