"""Runs a command in a pseudo-terminal: in_terminal.py COLUMNS ROWS SCRIPT COMMAND...

The script is a JSON list of what a person does: {"after": TEXT, "keys": KEYS} types when the text was seen since the last thing
that was done, {"after": TEXT, "columns": N, "rows": N} changes the size of the window.
"""
import fcntl
import json
import os
import pty
import select
import struct
import sys
import termios

columns, rows, script = int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])


def resize(fd, columns, rows):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


pid, fd = pty.fork()
if pid == 0:
    # Before the command looks: the parent may be slower than it.
    resize(0, columns, rows)
    os.execvp(sys.argv[4], sys.argv[4:])
seen = b""
since = 0
while True:
    ready, _, _ = select.select([fd], [], [], 100)
    if not ready:
        break
    try:
        chunk = os.read(fd, 65536)
    except OSError:
        break
    if not chunk:
        break
    seen += chunk
    while script and script[0]["after"].encode() in seen[since:]:
        act = script.pop(0)
        since = len(seen)
        if "keys" in act:
            os.write(fd, act["keys"].encode())
        else:
            resize(fd, act["columns"], act["rows"])
sys.stdout.buffer.write(seen)
sys.stdout.flush()
_, status = os.waitpid(pid, 0)
sys.exit(os.waitstatus_to_exitcode(status))
