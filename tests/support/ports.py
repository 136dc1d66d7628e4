"""Ports for servers that a test starts, stops and starts again."""

import random
import socket


def free_port() -> int:
    """A port of this machine where nobody listens, below those that the system hands to clients.

    A client that asks for one of theirs before the server has it may be given that very port
    for its own end: TCP then connects it to itself, it reads what it wrote, and the server
    finds its port in use.
    """
    chance = random.SystemRandom()  # tests side by side begin with the same seed
    while True:
        port = chance.randrange(10_000, 32_000)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
