"""A netlist of FPGA cells, as yosys writes it in JSON: what it holds, and its longest paths.

Depth is counted in LUTs between registers; carry chains and the multiplexers that join LUTs are
wires to it. Registers are flip-flops, block RAMs and DSP blocks, and what LUT-RAMs hold; an address
passes through a LUT-RAM as through a LUT.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

Bit = int | str  # a net's number, or "0", "1", "x"
Cell = dict[str, Any]
Path = tuple[int, Bit]  # levels, and the bit that starts it

REGISTER = re.compile(r"FD[RSCP]E|LD[CP]E|TRELLIS_FF")
BLOCK = re.compile(r"RAMB\d+E\d|URAM288\w*|DSP48E\d|DP16KD|PDPW16KD|MULT18X18D|ALU54B")
LUT = re.compile(r"LUT\d|INV")
LUT_RAM = re.compile(r"RAM\d+(M|X\d+)\w*|TRELLIS_DPR16X4|SRLC?\d+E")
CARRY = re.compile(r"CARRY\d|CCU2C")
JOIN = re.compile(r"MUXF\d|PFUMX|L6MUX21")
NO_PART = re.compile(r"\$scopeinfo")
# Ports of a LUT-RAM: what reads, and where it comes out.
READS = ((r"ADDR([A-H])", "DO{}"), (r"DPRA\d*", "DPO"), (r"A\d*", r"SPO|O\d*|Q"), (r"RAD", "DO"))
LUTS_OF = {"RAM32M": 4, "RAM64M": 4, "RAM32M16": 8, "RAM64M8": 8, "RAM32X1D": 2, "RAM64X1D": 2,
           "RAM128X1S": 2, "RAM128X1D": 4, "RAM256X1S": 4, "RAM256X1D": 8, "RAM512X1S": 8,
           "TRELLIS_DPR16X4": 4, "CCU2C": 2}


@dataclass(frozen=True)
class Longest:
    """A path from a register or an input to a register or an output."""

    levels: int
    start: str
    end: str


class Netlist:
    """One flat module. `module` is as in yosys' JSON."""

    def __init__(self, module: dict[str, Any]) -> None:
        self.cells: list[Cell] = list(module["cells"].values())
        unknown = {cell["type"] for cell in self.cells if not _known(cell["type"])}
        if unknown:
            raise ValueError(f"cells of unknown kind: {', '.join(sorted(unknown))}")
        self.ports: dict[str, Any] = module["ports"]
        self._names = _names(module["netnames"])
        self._drivers: dict[Bit, tuple[Cell, str, int]] = {
            bit: (cell, port, index) for cell in self.cells
            for port, bits in cell["connections"].items()
            if cell["port_directions"][port] == "output" for index, bit in enumerate(bits)}
        self._paths: dict[Bit, dict[str, Path]] = {
            bit: {"input": (0, bit)} for port in self.ports.values()
            if port["direction"] == "input" for bit in port["bits"]}

    def counts(self) -> dict[str, float]:
        """Cells by use. LUTs include LUT-RAM; block RAMs are counted in 36 Kbit (ECP5: 18)."""
        types = Counter(cell["type"] for cell in self.cells)

        def total(kind: re.Pattern[str]) -> int:
            return sum(LUTS_OF.get(name, 1) * n for name, n in types.items()
                       if kind.fullmatch(name))

        def number(kind: str) -> int:
            return sum(n for name, n in types.items() if re.fullmatch(kind, name))

        in_carry = LUTS_OF["CCU2C"] * types["CCU2C"]  # its LUTs are lost to other use
        return {
            "lut": total(LUT) + total(LUT_RAM) + in_carry, "lut_ram": total(LUT_RAM),
            "ff": total(REGISTER),
            "bram": number(r"RAMB36E\d|DP16KD|PDPW16KD") + number(r"RAMB18E\d") / 2,
            "uram": number(r"URAM288\w*"), "dsp": number(r"DSP48E\d|MULT18X18D"),
            "carry": number(CARRY.pattern),
        }

    def longest(self, start: str = "register", end: str = "register") -> list[Longest]:
        """The longest path to each register (`end` "register") or output ("output"), from
        registers or inputs (`start`); the deepest first. Bits of one vector count as one end."""
        best: dict[str, Longest] = {}
        for bit, name in self._ends(end):
            found = self._at(bit).get(start)
            if found and (name not in best or found[0] > best[name].levels):
                best[name] = Longest(found[0], self._name(found[1]), name)
        return sorted(best.values(), key=lambda path: (-path.levels, path.end))

    def _ends(self, kind: str) -> Iterator[tuple[Bit, str]]:
        if kind == "output":
            for name, port in self.ports.items():
                if port["direction"] == "output":
                    yield from ((bit, name) for bit in port["bits"])
            return
        for cell in self.cells:
            if LUT.fullmatch(cell["type"]) or CARRY.fullmatch(cell["type"]) \
                    or JOIN.fullmatch(cell["type"]) or NO_PART.fullmatch(cell["type"]):
                continue
            for port, bits in cell["connections"].items():
                if cell["port_directions"][port] == "input":
                    owner = self._owner(cell)
                    yield from ((bit, f"{owner} ({port})") for bit in bits)

    def _owner(self, cell: Cell) -> str:
        """A register by the net that it drives."""
        outputs = [bit for port, bits in cell["connections"].items()
                   if cell["port_directions"][port] == "output" for bit in bits]
        named = [self._names[bit] for bit in outputs if bit in self._names]
        return min(named, default=(2, 0, cell["type"]))[2]

    def _name(self, bit: Bit) -> str:
        return self._names[bit][2] if bit in self._names else f"net {bit}"

    def _at(self, bit: Bit) -> dict[str, Path]:
        """The longest paths to `bit` from a register and from an input."""
        waiting = [bit]
        while waiting:
            at = waiting[-1]
            if at in self._paths:
                waiting.pop()
                continue
            before, weight = self._before(at)
            missing = [source for source in before if source not in self._paths]
            if missing:
                waiting += missing
                if len(waiting) > len(self._drivers) + len(self.cells):
                    raise ValueError(f"a loop of combinational logic at {self._name(at)}")
                continue
            self._paths[at] = self._join(at, before, weight)
            waiting.pop()
        return self._paths[bit]

    def _join(self, at: Bit, before: list[Bit], weight: int) -> dict[str, Path]:
        joined = {"register": (weight, at)} if self._holds(at) else {}
        for source in before:
            for kind, (levels, start) in self._paths[source].items():
                if kind not in joined or levels + weight > joined[kind][0]:
                    joined[kind] = (levels + weight, start)
        return joined

    def _holds(self, bit: Bit) -> bool:
        """Whether the bit comes from state: of a register, or of a LUT-RAM."""
        kind = self._drivers[bit][0]["type"] if bit in self._drivers else ""
        return not (kind == "" or LUT.fullmatch(kind) or CARRY.fullmatch(kind)
                    or JOIN.fullmatch(kind))

    def _before(self, bit: Bit) -> tuple[list[Bit], int]:
        """The bits that decide `bit` in the same cycle, and how many LUTs lie between."""
        if bit not in self._drivers:
            return [], 0
        cell, port, index = self._drivers[bit]
        kind = cell["type"]
        if REGISTER.fullmatch(kind) or BLOCK.fullmatch(kind):
            return [], 0
        inputs = [(name, number, source) for name, bits in cell["connections"].items()
                  if cell["port_directions"][name] == "input"
                  for number, source in enumerate(bits)]
        if CARRY.fullmatch(kind):
            place = _place(port, index, last=True)
            inputs = [item for item in inputs if _place(item[0], item[1], last=False) <= place]
        elif LUT_RAM.fullmatch(kind):
            inputs = [item for item in inputs if _reads(item[0], port)]
        weight = 0 if CARRY.fullmatch(kind) or JOIN.fullmatch(kind) else 1
        return [source for _, _, source in inputs], weight


def _known(kind: str) -> bool:
    return any(part.fullmatch(kind) for part in (REGISTER, BLOCK, LUT, LUT_RAM, CARRY, JOIN,
                                                 NO_PART))


def _place(port: str, index: int, *, last: bool) -> int:
    """Along a carry cell: no output depends on what lies further on."""
    if port in ("S", "DI", "O", "CO"):  # of Xilinx, vectors
        return index
    digit = re.search(r"\d$", port)
    return int(digit[0]) if digit else int(last)


def _reads(address: str, output: str) -> bool:
    for pattern, out in READS:
        found = re.fullmatch(pattern, address)
        if found and re.fullmatch(out.format(*found.groups()), output):
            return True
    return False


def _names(netnames: dict[str, Any]) -> dict[Bit, tuple[int, int, str]]:
    """The best name of each bit: that of a register if there is one, then the shortest."""
    names: dict[Bit, tuple[int, int, str]] = {}
    for name, net in netnames.items():
        rank = 0 if "register" in net["attributes"] else 1 + int(net["hide_name"])
        entry = (rank, len(name), name)
        for bit in _nets(net["bits"]):
            if bit not in names or entry < names[bit]:
                names[bit] = entry
    return names


def _nets(bits: Iterable[Bit]) -> Iterator[int]:
    return (bit for bit in bits if isinstance(bit, int))
