"""Makes a certificate for a TLS server of a test."""

import subprocess
from pathlib import Path


def make_certificate(certificate: Path, private: Path) -> None:
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    names = ["-subj", "/CN=server", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    files = ["-keyout", str(private), "-out", str(certificate)]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)
