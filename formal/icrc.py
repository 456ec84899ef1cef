"""ICRC (rtl/icrc): IcrcCheck and IcrcInsert treat frames as they promise, whatever the CRC says.

The CRC itself is held against zlib by simulation. Here each product of a matrix and a word, of
which it is made, is any word at all; so the remainder is anything, and what is proved holds for
every remainder that could be computed.
"""

from formal import icrc_check, icrc_insert

PROOFS = icrc_insert.PROOFS + icrc_check.PROOFS
