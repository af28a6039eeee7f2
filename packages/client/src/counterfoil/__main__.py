"""The entry point. Worker processes import it again, so it must not import anything that a worker does not need."""

try:
    import signal
except KeyboardInterrupt:
    raise SystemExit(130) from None


def run() -> None:
    # Until the command handles Ctrl-C itself, Ctrl-C ends the process without a traceback. If SIGINT is ignored, as in
    # a background job of a shell, it stays ignored.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from counterfoil.program import main

    main.run()


if __name__ == "__main__":
    run()
