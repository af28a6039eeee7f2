"""The signals that ask a process to stop."""

import signal


def stop_signals() -> list[signal.Signals]:
    """Return SIGTERM and SIGHUP (sent when a terminal closes). Leave out SIGHUP if it is ignored, as under `nohup`."""
    is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGTERM] if is_ignored else [signal.SIGTERM, signal.SIGHUP]
