"""CRC-32 (IEEE 802.3, reflected) as linear algebra over GF(2).

A matrix is a tuple of 32 columns, each a 32-bit integer: column j is the image of bit j. `power(n)`
is what feeding n zero bits does to the CRC register; a negative n takes zero bits back. Because
the register is linear in its contents and the message, this is all that a CRC of any width needs.
"""

from functools import cache

from amaranth.hdl import Cat, Value

POLYNOMIAL = 0xEDB88320
RESIDUE = 0xDEBB20E3  # register after a message that ends with its own CRC

Matrix = tuple[int, ...]

IDENTITY: Matrix = tuple(1 << j for j in range(32))


def _step(state: int) -> int:
    return state >> 1 ^ (POLYNOMIAL if state & 1 else 0)


def _unstep(state: int) -> int:
    low = state >> 31  # the polynomial has its top bit set, so bit 31 tells what was shifted out
    return (state ^ (POLYNOMIAL if low else 0)) << 1 | low


def transform(matrix: Matrix, state: int) -> int:
    """The product of `matrix` and the vector `state`."""
    result = 0
    for j, column in enumerate(matrix):
        if state >> j & 1:
            result ^= column
    return result


def multiply(left: Matrix, right: Matrix) -> Matrix:
    return tuple(transform(left, column) for column in right)


@cache
def power(bits: int) -> Matrix:
    """The register's transformation by `bits` zero bits; negative takes them back."""
    if bits == 0:
        return IDENTITY
    if abs(bits) == 1:
        return tuple(map(_step if bits > 0 else _unstep, IDENTITY))
    half = power(bits // 2) if bits > 0 else power(-(-bits // 2))
    square = multiply(half, half)
    rest = bits % 2 if bits > 0 else -(-bits % 2)
    return multiply(power(rest), square) if rest else square


def register_after(message: bytes) -> int:
    """The CRC register (not inverted) after `message`, from all ones."""
    state = 0xFFFFFFFF
    for byte in message:
        state = transform(power(8), state ^ byte)
    return state


def product(matrix: Matrix, word) -> Value:
    """Hardware for `transform`: 32 parities of a masked word, each a balanced tree in synthesis."""
    rows = (sum((column >> i & 1) << j for j, column in enumerate(matrix)) for i in range(32))
    return Cat((word & row).xor() for row in rows)
