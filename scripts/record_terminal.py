"""Runs a command in a pseudo-terminal and prints what it was sent: record_terminal.py COLUMNS ROWS COMMAND..."""
import fcntl
import os
import pty
import struct
import sys
import termios

pid, fd = pty.fork()
if pid == 0:
    size = struct.pack("HHHH", int(sys.argv[2]), int(sys.argv[1]), 0, 0)
    fcntl.ioctl(0, termios.TIOCSWINSZ, size)
    os.execvp(sys.argv[3], sys.argv[3:])
while True:
    try:
        chunk = os.read(fd, 65536)
    except OSError:
        break
    if not chunk:
        break
    sys.stdout.buffer.write(chunk)
_, status = os.waitpid(pid, 0)
sys.exit(os.waitstatus_to_exitcode(status))
