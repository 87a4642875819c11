"""A child that says and hears what a test does: what comes in goes to the Unix socket named first, and the other way round."""
import os
import socket
import sys
import threading

peer = socket.socket(socket.AF_UNIX)
peer.connect(sys.argv[1])


def inward():
    while chunk := os.read(0, 65536):
        peer.sendall(chunk)
    os._exit(0)


threading.Thread(target=inward, daemon=True).start()
while chunk := peer.recv(65536):
    os.write(1, chunk)
os._exit(3)
