"""The context cache: one component for QPC, MPT, CQC (and later MTT, SRQC)."""

from rtl.context.cache import ContextCache
from rtl.context.interface import (
                                   CachePort,
                                   CacheRequest,
                                   CacheResponse,
                                   CacheStatus,
                                   CacheTable,
                                   Operation,
)

__all__ = ["CachePort", "CacheRequest", "CacheResponse", "CacheStatus", "CacheTable",
           "ContextCache", "Operation"]
