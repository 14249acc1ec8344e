"""Sources of completions. Pure bodies per vendor, thin shells around them.

Public here is what the layers above use; vendors are loaded by ``build`` when they are needed.
"""

from __future__ import annotations

from ksi_daemon.providers.model import (
    Capabilities,
    Completion,
    Message,
    Provider,
    Request,
    StopReason,
    Tool,
    Usage,
)
from ksi_daemon.providers.specs import PROVIDERS, build

__all__ = [
    "PROVIDERS",
    "Capabilities",
    "Completion",
    "Message",
    "Provider",
    "Request",
    "StopReason",
    "Tool",
    "Usage",
    "build",
]
