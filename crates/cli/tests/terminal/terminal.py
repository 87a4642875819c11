"""Runs a command on a terminal of its own, types Ctrl-C once its first argument is on the screen, and prints what came
and the exit code."""
import fcntl
import json
import os
import pty
import struct
import sys
import termios

awaited, command = sys.argv[1].encode(), sys.argv[2:]
child, terminal = pty.fork()
if child == 0:
    os.execvp(command[0], command)
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
seen, typed = b"", False
while True:
    try:
        more = os.read(terminal, 65536)
    except OSError:  # Linux says EIO once nobody has the other end open.
        break
    if not more:
        break
    seen += more
    if awaited and not typed and awaited in seen:
        os.write(terminal, b"\x03")
        typed = True
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
json.dump({"seen": seen.decode(errors="replace"), "code": code}, sys.stdout)
