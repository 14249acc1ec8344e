"""The socket's wire format, without a socket: frames of newline-delimited JSON and their shapes."""

from __future__ import annotations

from ksi_daemon.protocol.framing import FrameReader, FrameTooLarge
from ksi_daemon.protocol.messages import Push, Reply, Wire, decode_request, encode

__all__ = ["FrameReader", "FrameTooLarge", "Push", "Reply", "Wire", "decode_request", "encode"]
