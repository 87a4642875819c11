"""A server over stdio whose part is played at the other end of a socket: lines go to and fro until that hangs up."""
import os
import socket
import sys
import threading

stage = socket.socket(socket.AF_UNIX)
stage.connect(sys.argv[1])


def speak():
    for line in stage.makefile("rb"):
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    os._exit(0)


threading.Thread(target=speak, daemon=True).start()
for line in sys.stdin.buffer:
    stage.sendall(line)
