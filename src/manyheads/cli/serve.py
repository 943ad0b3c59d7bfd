"""`manyheads serve`: a model in the browser."""

import sys
from contextlib import suppress

from manyheads.cli.options import Device, Model, Whole
from manyheads.errors import OptionError

__all__ = ["serve"]


def serve(model: Model, /, *, port: Whole = 8000, device: Device = "auto") -> None:
    """Serve a web page to translate and look inside a model.

    ```
    manyheads serve de-en
    manyheads serve runs/mine --port 8080
    ```

    The page listens on 127.0.0.1 only, so other machines cannot reach it. Ctrl-C ends it. It needs FastAPI and uvicorn:
    pip install 'manyheads[serve]'.

    Parameters
    ----------
    port
        Port to listen on; 0 takes a free one.
    """
    try:
        import uvicorn

        from manyheads.serve.app import make_app
    except ImportError:
        raise OptionError(
            "the page needs FastAPI and uvicorn, which are not installed", hint="pip install 'manyheads[serve]'"
        ) from None
    from manyheads.decoding.loading import load_translator
    from manyheads.serve.listening import listen

    if not 0 <= port < 65_536:
        raise OptionError(f"a port is 0 to 65535, got {port}")
    app = make_app(load_translator(model, device, "fp32"))
    with listen(port) as socket:
        print(f"http://127.0.0.1:{socket.getsockname()[1]}  (Ctrl-C ends it)", file=sys.stderr, flush=True)  # noqa: T201
        server = uvicorn.Server(
            uvicorn.Config(app, log_level="warning", access_log=False, server_header=False, lifespan="off")
        )
        with suppress(KeyboardInterrupt):  # Ctrl-C raises it only sometimes, and is how the page is meant to end
            server.run([socket])
