"""Listening on the loopback address, which no other machine can reach."""

import socket

from manyheads.errors import OptionError

__all__ = ["listen"]

LOOPBACK = "127.0.0.1"


def listen(port: int) -> socket.socket:
    """Listen before anything is printed: a taken port is one sentence, and early requests wait for the server."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
        listening.listen()
    except OSError as error:
        listening.close()
        raise OptionError(
            f"cannot listen on port {port} of {LOOPBACK}: {error.strerror}", hint="--port 0 picks a free one"
        ) from None
    return listening
