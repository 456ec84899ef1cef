"""Host memory: 2^64 bytes, zero until written, kept as sparse pages."""

PAGE = 4096
ADDRESS_SPACE = 1 << 64


class HostMemory:
    """Sparse byte-addressed memory; an access may cross pages and wraps at 2^64."""

    def __init__(self) -> None:
        self._pages: dict[int, bytearray] = {}

    def read(self, address: int, length: int) -> bytes:
        out = bytearray()
        for page, start, count in _pieces(address, length):
            held = self._pages.get(page)
            out += held[start:start + count] if held is not None else bytes(count)
        return bytes(out)

    def write(self, address: int, data: bytes) -> None:
        done = 0
        for page, start, count in _pieces(address, len(data)):
            held = self._pages.get(page)
            if held is None:
                held = self._pages[page] = bytearray(PAGE)
            held[start:start + count] = data[done:done + count]
            done += count

    def copy(self) -> "HostMemory":
        twin = HostMemory()
        twin._pages = {page: bytearray(held) for page, held in self._pages.items()}
        return twin

    def differences(self, other: "HostMemory") -> list[int]:
        """Addresses of the bytes that differ, in order."""
        found = []
        for page in sorted(self._pages.keys() | other._pages.keys()):
            mine = self._pages.get(page, bytes(PAGE))
            theirs = other._pages.get(page, bytes(PAGE))
            if mine != theirs:
                found += [page * PAGE + i for i in range(PAGE) if mine[i] != theirs[i]]
        return found


def _pieces(address: int, length: int) -> list[tuple[int, int, int]]:
    """The access cut at page borders: (page, first byte in it, bytes)."""
    pieces = []
    while length > 0:
        page, start = divmod(address % ADDRESS_SPACE, PAGE)
        count = min(length, PAGE - start)
        pieces.append((page, start, count))
        address += count
        length -= count
    return pieces
