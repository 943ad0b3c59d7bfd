"""The address that is listened on: this machine's own, which no other can reach."""

import socket

from manyheads.errors import OptionError

__all__ = ["listen"]

LOOPBACK = "127.0.0.1"


def listen(port: int) -> socket.socket:
    """Before anything else is said: a taken port is one sentence, and who comes at once waits instead of being refused."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
        listening.listen()
    except OSError as error:
        listening.close()
        raise OptionError(
            f"port {port} of {LOOPBACK} cannot be listened on: {error.strerror}", hint="--port 0 takes a free one"
        ) from None
    return listening
