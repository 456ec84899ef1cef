"""The invariant CRC of RoCE frames: check on receive, insertion on transmit (docs/icrc.md)."""

from rtl.icrc.check import IcrcCheck, IcrcCounters, IcrcReport
from rtl.icrc.info import IcrcInfo
from rtl.icrc.insert import IcrcInsert

__all__ = ["IcrcCheck", "IcrcCounters", "IcrcInfo", "IcrcInsert", "IcrcReport"]
