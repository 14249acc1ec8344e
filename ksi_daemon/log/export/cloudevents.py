"""Events as CloudEvents 1.0 in the JSON event format, one a line. Pure.

``correlationid``, ``causationid`` and ``sequence`` are names of the specification's own
extensions. Names of attributes are lower-case letters and digits, and an attribute that has no
value is left out: null is none.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

import msgspec

from ksi_daemon.log.export.record import Record, iso

__all__ = ["TYPE_PREFIX", "cloud_event"]

TYPE_PREFIX: Final = "ksi."
# As many digits as a seq can have: what is a text is ordered as one.
_DIGITS: Final = 19

_encode: Final = msgspec.json.Encoder().encode


def cloud_event(record: Record) -> bytes:
    """Return the event as one JSON object; source and id together name it for ever."""
    given: dict[str, Any] = {
        "specversion": "1.0",
        "id": record.id,
        "source": f"ksi:{quote(record.source, safe=':/@')}",
        "type": f"{TYPE_PREFIX}{record.name}",
        "subject": record.agent_id or None,
        "time": iso(record.ts),
        "datacontenttype": "application/json",
        "data": msgspec.Raw(record.data.encode()),
        "correlationid": record.correlation_id or None,
        "causationid": record.cause_id,
        "sequence": f"{record.seq:0{_DIGITS}d}",
        "ksistatus": record.status,
        "ksierror": record.error_code,
        "ksicompletion": record.completion_id,
    }
    return _encode({name: value for name, value in given.items() if value is not None})
