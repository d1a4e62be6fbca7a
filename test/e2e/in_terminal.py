"""Runs a command in a pseudo-terminal: in_terminal.py COLUMNS ROWS WAIT_FOR KEYS COMMAND... Keys are sent when the text was seen."""
import fcntl
import os
import pty
import select
import struct
import sys
import termios

columns, rows, wait_for, keys = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].encode(), sys.argv[4].encode()
pid, fd = pty.fork()
if pid == 0:
    os.execvp(sys.argv[5], sys.argv[5:])
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
seen = b""
while True:
    ready, _, _ = select.select([fd], [], [], 60)
    if not ready:
        break
    try:
        chunk = os.read(fd, 65536)
    except OSError:
        break
    if not chunk:
        break
    seen += chunk
    if wait_for and wait_for in seen:
        os.write(fd, keys)
        wait_for = b""
sys.stdout.buffer.write(seen)
sys.stdout.flush()
_, status = os.waitpid(pid, 0)
sys.exit(os.waitstatus_to_exitcode(status))
