"""The one header item that parser, responder, requester and deparser exchange.

Integers (PSN, VA, lengths, ports …) hold their value. Addresses and the immediate are opaque
byte strings, first byte of the wire in bits 7:0, so that they are compared and copied without
ever being turned round. The parser and the deparser are the only places that convert.
"""

from amaranth.hdl import unsigned
from amaranth.lib import data

from rtl.headers.names import Kind, Reason


class Vlan(data.Struct):
    """One 802.1Q or 802.1ad tag."""

    tci: unsigned(16)  # PCP 15:13, DEI 12, VID 11:0
    service: unsigned(1)  # TPID 0x88a8 (802.1ad) rather than 0x8100


class Ethernet(data.Struct):
    dst: unsigned(48)
    src: unsigned(48)
    ethertype: unsigned(16)  # after the tags
    vlan_count: unsigned(2)
    vlan: data.ArrayLayout(Vlan, 2)  # outer first


class Ip(data.Struct):
    """IPv4, IPv6 or GRH. IPv4 addresses are in their IPv4-mapped form (::ffff:a.b.c.d)."""

    version: unsigned(3)  # 0 none, 4, 6; a GRH counts as 6
    dscp: unsigned(6)
    ecn: unsigned(2)
    ttl: unsigned(8)  # or hop limit
    protocol: unsigned(8)  # after IPv6 extension headers
    identification: unsigned(16)
    flags: unsigned(3)  # reserved, DF, MF
    flow_label: unsigned(20)
    src: unsigned(128)
    dst: unsigned(128)


class Udp(data.Struct):
    sport: unsigned(16)
    dport: unsigned(16)


class MacControl(data.Struct):
    """PAUSE (IEEE 802.3 annex 31B) and PFC (IEEE 802.1Q 36.2); times in quanta of 512 bit times."""

    enable: unsigned(8)  # PFC's class-enable vector
    times: data.ArrayLayout(unsigned(16), 8)  # of each class; PAUSE has only the first


class Bth(data.Struct):
    """Base transport header (IBTA 9.2)."""

    opcode: unsigned(8)
    se: unsigned(1)
    m: unsigned(1)
    pad: unsigned(2)
    tver: unsigned(4)
    pkey: unsigned(16)
    fecn: unsigned(1)
    becn: unsigned(1)
    resv6: unsigned(6)
    dqpn: unsigned(24)
    ackreq: unsigned(1)
    resv7: unsigned(7)
    psn: unsigned(24)


class Reth(data.Struct):
    va: unsigned(64)
    rkey: unsigned(32)
    length: unsigned(32)


class Aeth(data.Struct):
    syndrome: unsigned(8)
    msn: unsigned(24)


class AtomicEth(data.Struct):
    va: unsigned(64)
    rkey: unsigned(32)
    swap: unsigned(64)  # swap, or the addend of FETCH_ADD
    compare: unsigned(64)


class Deth(data.Struct):
    qkey: unsigned(32)
    sqpn: unsigned(24)


class Present(data.Struct):
    """Which extension headers the packet has."""

    rdeth: unsigned(1)
    xrceth: unsigned(1)
    deth: unsigned(1)
    reth: unsigned(1)
    atomiceth: unsigned(1)
    aeth: unsigned(1)
    atomicacketh: unsigned(1)
    immdt: unsigned(1)
    ieth: unsigned(1)
    feth: unsigned(1)


class Headers(data.Struct):
    """Everything that is known of a frame. Lengths and offsets are bytes from the frame's start."""

    kind: Kind
    error: Reason
    sequence: unsigned(32)  # counts the frames that entered the parser, from 0 at reset
    frame_length: unsigned(14)
    l3_offset: unsigned(8)
    l4_offset: unsigned(8)  # of the UDP header; of the BTH in RoCEv1
    bth_offset: unsigned(8)
    payload_offset: unsigned(9)
    payload_length: unsigned(14)  # without pad and ICRC
    eth: Ethernet
    ip: Ip
    control: MacControl
    udp: Udp
    bth: Bth
    present: Present
    rdeth: unsigned(24)  # EE context
    xrceth: unsigned(24)  # XRC SRQ number
    deth: Deth
    reth: Reth
    atomiceth: AtomicEth
    aeth: Aeth
    atomicacketh: unsigned(64)
    immdt: unsigned(32)  # byte string
    ieth: unsigned(32)  # R_Key to invalidate
    feth: unsigned(32)
