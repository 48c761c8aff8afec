"""Sends each kind of frame to a router, and prints what leaves the router for it: one JSON object per kind.

Usage: kinds.py LEFT_NAMESPACE LEFT_INTERFACE RIGHT_NAMESPACE RIGHT_INTERFACE

Nothing but this script sends on the two links. All hosts are static neighbours of the router, and no stack answers for them.
"""

import ctypes
import json
import select
import socket
import sys
import time

from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import (
    ICMPv6EchoRequest, ICMPv6ParamProblem, ICMPv6TimeExceeded, IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting, PadN, RouterAlert,
)
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether
from scapy.packet import Raw
from scapy.utils import checksum

ROUTER, HOST, FAR = "02:00:00:00:39:01", "02:00:00:00:39:08", "02:00:00:00:39:09"
SOURCE, TARGET, OWN = "192.0.2.8", "198.51.100.9", "192.0.2.1"
BEYOND = "203.0.113.7"
SOURCE6, TARGET6, OWN6, BEYOND6 = "2001:db8:1::8", "2001:db8:2::9", "2001:db8:1::1", "2001:db8:9::7"
RIGHT = "02:00:00:00:39:02"
# How long a marker may take on a busy host, when it is sent again, and the least time between two kinds, below the rates of errors.
PATIENCE, AGAIN, PAUSE = 60, 1, 0.06
# Linux tells a host of only one packet without a route in a second, whatever other errors are allowed.
NO_ROUTE = {f"v4-{what}-{to}" for what in ("to", "echo-to") for to in ("none", "reserved", "reserved-last", "link-local")}
# How the payload of a marker begins. Every router forwards markers, in order with what came before them.
MARK = b"marker of kinds.py "


def link(namespace, interface):
    """Opens a socket at an interface of a network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{namespace}") as file:
        if libc.setns(file.fileno(), 0x40000000) != 0:
            raise OSError(ctypes.get_errno(), namespace)
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    opened.bind((interface, 0))
    return opened


def ether(payload, kind=None, to=ROUTER, source=HOST):
    frame = Ether(dst=to, src=source) / payload
    if kind is not None:
        frame.type = kind
    return frame


def datagram(size=18, port=4000):
    return UDP(sport=port, dport=5000) / Raw(bytes(range(256)) * (size // 256) + bytes(range(size % 256)))


def four():
    """All kinds of IPv4 frames, by name."""
    kinds = {}

    def add(name, packet, **more):
        kinds["v4-" + name] = bytes(ether(packet, **more))

    def ip(**more):
        return IP(**{"src": SOURCE, "dst": TARGET, "id": 7, "ttl": 64, **more})

    for protocol in (1, 2, 6, 17, 41, 47, 50, 51, 58, 89, 103, 112, 132, 136, 253, 255):
        add(f"protocol-{protocol}", ip(proto=protocol) / Raw(b"0123456789abcdef"))
    for ttl in (0, 1, 2, 3, 64, 128, 255):
        add(f"ttl-{ttl}", ip(ttl=ttl) / datagram())
    for tos in (0, 1, 2, 3, 0x10, 0x28, 0xB8, 0xC0, 0xFF):
        add(f"tos-{tos:02x}", ip(tos=tos) / datagram())
    for size in (0, 1, 17, 18, 19, 100, 547, 1000, 1251, 1252, 1253, 1300, 1400, 1472):
        add(f"size-{size}", ip() / datagram(size))
        add(f"size-df-{size}", ip(flags="DF") / datagram(size))
    for flags in (1, 2, 3, 4, 5, 6):
        add(f"flags-{flags}", ip(flags=flags) / datagram())
    for offset in (1, 2, 100, 185, 4000, 8000, 8189):
        add(f"fragment-{offset}", ip(frag=offset) / Raw(bytes(64)))
        add(f"fragment-more-{offset}", ip(frag=offset, flags="MF") / Raw(bytes(64)))
    for number in (0, 1, 0x1234, 0xFFFF):
        add(f"id-{number:04x}", ip(id=number) / datagram())
    destinations = {
        "beyond": BEYOND, "own": OWN, "own-right": "198.51.100.1", "none": "100.64.1.1", "zero": "0.0.0.0", "zero-net": "0.1.2.3",
        "loopback": "127.0.0.1", "multicast": "224.0.0.9", "multicast-far": "239.1.1.1", "reserved": "240.0.0.1",
        "reserved-last": "255.255.255.254", "broadcast": "255.255.255.255", "directed": "198.51.100.255", "network": "198.51.100.0",
        "near-directed": "192.0.2.255", "near-network": "192.0.2.0", "link-local": "169.254.1.1",
    }
    for name, destination in destinations.items():
        add(f"to-{name}", ip(dst=destination) / datagram())
        add(f"echo-to-{name}", ip(dst=destination) / ICMP(id=3, seq=4) / Raw(b"some octets"))
    sources = {
        "zero": "0.0.0.0", "zero-net": "0.1.2.3", "loopback": "127.0.0.1", "multicast": "224.0.0.9", "reserved": "240.0.0.1",
        "broadcast": "255.255.255.255", "own": OWN, "own-right": "198.51.100.1", "directed": "192.0.2.255", "network": "192.0.2.0",
        "far": "198.51.100.77", "beyond": "203.0.113.77", "link-local": "169.254.1.1",
    }
    for name, source in sources.items():
        add(f"from-{name}", ip(src=source) / datagram())
    options = {
        "nop": b"\x01\x01\x01\x00", "eol": bytes(4), "rr": b"\x07\x0b\x04" + bytes(8) + b"\x00", "rr-full": b"\x07\x07\x08" + bytes(5),
        "rr-short": b"\x07\x02\x00\x00", "rr-pointer": b"\x07\x07\x03" + bytes(5), "rr-odd": b"\x07\x07\x06" + bytes(5),
        "ts-full": b"\x44\x04\x05\x00", "ts-overflow": b"\x44\x04\x05\xf0", "lsrr": b"\x83\x07\x04\xc6\x33\x64\x01\x00",
        "ssrr": b"\x89\x07\x04\xc6\x33\x64\x01\x00", "alert": b"\x94\x04\x00\x00", "security": b"\x82\x0b" + bytes(10),
        "unknown": b"\x1e\x04\x00\x00", "long": b"\x1e\x28\x00\x00", "no-length": b"\x01\x01\x01\x07", "length-0": b"\x07\x00\x00\x00",
        "length-1": b"\x07\x01\x00\x00",
    }
    for name, octets in options.items():
        for place, at in (("", TARGET), ("own-", OWN)):
            # Put in by hand, because some of them are malformed.
            header = bytearray(bytes(ip(dst=at, len=20 + len(octets) + 26, ihl=5 + len(octets) // 4, proto=17))[:20]) + octets
            header[10:12] = bytes(2)
            header[10:12] = checksum(bytes(header)).to_bytes(2, "big")
            add(f"option-{place}{name}", Raw(bytes(header) + bytes(ip(dst=at) / datagram())[20:]), kind=0x0800)
    add("checksum", ip(chksum=0x1234) / datagram())
    add("version-6", ip(version=6) / datagram())
    add("version-0", ip(version=0) / datagram())
    for words in (0, 4, 15):
        add(f"header-{words}", ip(ihl=words) / datagram())
    for length in (0, 19, 20, 27, 400, 65535):
        add(f"length-{length}", ip(len=length) / datagram())
    add("empty", ip())
    add("cut", Raw(bytes(ip() / datagram())[:12]), kind=0x0800)
    add("trailer", Raw(bytes(ip() / datagram(4)) + bytes(40)), kind=0x0800)
    for flags in ("S", "SA", "F", "R", "PA", "FPU", "", "SFRPAUEC"):
        add(f"tcp-{flags or 'none'}", ip() / TCP(sport=1, dport=2, flags=flags))
    add("tcp-own", ip(dst=OWN) / TCP(sport=1, dport=2, flags="S"))
    for kind in (0, 3, 4, 5, 8, 9, 10, 11, 12, 13, 15, 17, 40):
        # Timestamps that are not the present.
        times = {"ts_ori": 1, "ts_rx": 2, "ts_tx": 3} if kind == 13 else {}
        add(f"icmp-{kind}", ip() / ICMP(type=kind, **times) / Raw(bytes(40)))
    for kind in (0, 3, 5, 9, 10, 15, 17):
        add(f"icmp-own-{kind}", ip(dst=OWN) / ICMP(type=kind) / Raw(bytes(40)))
    add("icmp-own-checksum", ip(dst=OWN) / ICMP(chksum=1) / Raw(b"x"))
    add("icmp-error-expired", ip(ttl=1) / ICMP(type=3, code=1) / Raw(bytes(40)))
    add("fragment-expired", ip(ttl=1, frag=8) / Raw(bytes(64)))
    add("redirect", ip(dst="192.0.2.9") / datagram())
    add("mac-broadcast", ip() / datagram(), to="ff:ff:ff:ff:ff:ff")
    add("mac-multicast", ip() / datagram(), to="01:00:5e:00:00:09")
    add("mac-other", ip() / datagram(), to="02:00:00:00:39:77")
    add("mac-group-source", ip() / datagram(), source="03:00:00:00:39:08")
    add("tag-priority", Dot1Q(vlan=0, prio=5) / (ip() / datagram()))
    add("tag-vlan", Dot1Q(vlan=5) / (ip() / datagram()))
    add("tag-two", Dot1AD(vlan=5) / Dot1Q(vlan=6) / (ip() / datagram()))
    add("as-v6", ip() / datagram(), kind=0x86DD)
    return kinds


def six():
    """All kinds of IPv6 frames, by name."""
    kinds = {}

    def add(name, packet, **more):
        kinds["v6-" + name] = bytes(ether(packet, **more))

    def ip(**more):
        return IPv6(**{"src": SOURCE6, "dst": TARGET6, "hlim": 64, **more})

    def inner(at, size=18):
        # With the checksum, without which the kernel takes none.
        return bytes(ip(dst=at) / datagram(size))[40:]

    for protocol in (4, 6, 17, 41, 47, 50, 58, 59, 89, 103, 112, 115, 132, 136, 253, 255):
        add(f"protocol-{protocol}", ip(nh=protocol) / Raw(b"0123456789abcdef"))
    for hops in (0, 1, 2, 3, 64, 128, 255):
        add(f"hops-{hops}", ip(hlim=hops) / datagram())
    for traffic in (0, 1, 2, 3, 0x28, 0xB8, 0xC0, 0xFF):
        add(f"class-{traffic:02x}", ip(tc=traffic) / datagram())
    for label in (0, 1, 0x12345, 0xFFFFF):
        add(f"flow-{label:05x}", ip(fl=label) / datagram())
    for size in (0, 1, 17, 100, 547, 1000, 1231, 1232, 1233, 1251, 1252, 1253, 1300, 1400, 1452):
        add(f"size-{size}", ip() / datagram(size))
    destinations = {
        "beyond": BEYOND6, "own": OWN6, "own-right": "2001:db8:2::1", "none": "3fff::1", "unspecified": "::", "loopback": "::1",
        "mapped": "::ffff:198.51.100.9", "compatible": "::198.51.100.9", "link-local": "fe80::77", "site-local": "fec0::1",
        "unique-local": "fd00::1", "all-nodes": "ff02::1", "all-routers": "ff02::2", "group": "ff02::1234", "group-interface": "ff01::1",
        "group-site": "ff05::2", "group-global": "ff0e::1", "anycast": "2001:db8:1::", "anycast-right": "2001:db8:2::",
        "documentation": "2001:db8:ffff::1",
    }
    for name, destination in destinations.items():
        to = {"to": "33:33:" + ":".join(socket.inet_pton(socket.AF_INET6, destination)[12:].hex(":").split(":"))}
        more = to if destination.startswith("ff") else {}
        add(f"to-{name}", ip(dst=destination) / datagram(), **more)
        add(f"echo-to-{name}", ip(dst=destination) / ICMPv6EchoRequest(id=3, seq=4, data=b"some octets"), **more)
    sources = {
        "unspecified": "::", "loopback": "::1", "mapped": "::ffff:192.0.2.8", "compatible": "::192.0.2.8", "link-local": "fe80::8",
        "site-local": "fec0::8", "multicast": "ff02::1", "multicast-global": "ff0e::1", "own": OWN6, "own-right": "2001:db8:2::1",
        "far": "2001:db8:2::77", "beyond": "2001:db8:9::77", "anycast": "2001:db8:1::", "unique-local": "fd00::8",
    }
    for name, source in sources.items():
        add(f"from-{name}", ip(src=source) / datagram())
        add(f"from-{name}-own", ip(src=source, dst=OWN6) / datagram())
    hop, dest = IPv6ExtHdrHopByHop, IPv6ExtHdrDestOpt
    unknown = (0x1E, 0x3E, 0x5E, 0x9E, 0xDE)
    for place, at in (("", TARGET6), ("own-", OWN6)):
        for name, header in (("hop", hop), ("dest", dest)):
            add(f"{name}-{place}pad", ip(dst=at) / header(options=[PadN(optdata=bytes(4))]) / datagram())
            for kind in unknown:
                octets = bytes([17, 0, kind, 2, 0, 0, 1, 0])
                number = 0 if header is hop else 60
                add(f"{name}-{place}unknown-{kind:02x}", ip(dst=at, nh=number) / Raw(octets + inner(at)))
            number = 0 if header is hop else 60
            add(f"{name}-{place}cut", ip(dst=at, nh=number) / Raw(bytes([17, 9, 1, 4, 0, 0, 0, 0])))
            add(f"{name}-{place}long-option", ip(dst=at, nh=number) / Raw(bytes([17, 0, 1, 9, 0, 0, 0, 0]) + inner(at)))
        add(f"hop-{place}alert", ip(dst=at) / hop(options=[RouterAlert(value=0), PadN(optdata=b"")]) / datagram())
        add(f"hop-{place}jumbo", ip(dst=at, nh=0) / Raw(bytes([17, 0, 0xC2, 4, 0, 1, 0, 0]) + inner(at)))
        add(f"hop-{place}second", ip(dst=at, nh=60) / Raw(bytes([0, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0]) + inner(at)))
        for left in (0, 1):
            add(f"routing-{place}0-{left}", ip(dst=at) / IPv6ExtHdrRouting(type=0, segleft=left, addresses=[BEYOND6]) / datagram())
            octets = bytes([17, 0, 77, left, 0, 0, 0, 0])
            add(f"routing-{place}77-{left}", ip(dst=at, nh=43) / Raw(octets + inner(at)))
        for offset, more in ((0, 0), (0, 1), (1, 0), (1, 1), (100, 0), (8000, 1), (8191, 1)):
            header = IPv6ExtHdrFragment(nh=17, offset=offset, m=more, id=9 + offset * 2 + more)
            if place == "" or (offset, more) == (0, 0):
                add(f"fragment-{place}{offset}-{more}", ip(dst=at) / header / Raw(inner(at, 56)))
        chain = bytes([60, 0, 1, 4, 0, 0, 0, 0]) * 6 + bytes([17, 0, 1, 4, 0, 0, 0, 0])
        add(f"chain-{place}7", ip(dst=at, nh=60) / Raw(chain + inner(at)))
        add(f"none-{place}", ip(dst=at, nh=59))
    for length in (0, 1, 7, 400, 65535):
        add(f"length-{length}", ip(plen=length) / datagram())
    add("version-4", ip(version=4) / datagram())
    add("empty", ip(nh=17))
    add("cut", Raw(bytes(ip() / datagram())[:30]), kind=0x86DD)
    add("trailer", Raw(bytes(ip() / datagram(4)) + bytes(40)), kind=0x86DD)
    for flags in ("S", "SA", "F", "R", "PA", ""):
        add(f"tcp-{flags or 'none'}", ip() / TCP(sport=1, dport=2, flags=flags))
    add("tcp-own", ip(dst=OWN6) / TCP(sport=1, dport=2, flags="S"))
    for kind in (1, 2, 3, 4, 128, 129, 130, 133, 134, 135, 136, 137, 143, 200):
        add(f"icmp-{kind}", ip(nh=58) / Raw(bytes([kind, 0, 0, 0]) + bytes(40)))
    for kind in (1, 2, 129, 137, 143, 200):
        add(f"icmp-own-{kind}", ip(dst=OWN6, nh=58) / Raw(bytes([kind, 0, 0, 0]) + bytes(40)))
    add("icmp-own-checksum", ip(dst=OWN6) / ICMPv6EchoRequest(cksum=1, data=b"x"))
    add("icmp-error-expired", ip(hlim=1) / ICMPv6TimeExceeded() / (ip() / datagram()))
    add("icmp-problem-expired", ip(hlim=1) / ICMPv6ParamProblem() / (ip() / datagram()))
    add("fragment-expired", ip(hlim=1) / IPv6ExtHdrFragment(nh=17, offset=8, id=3) / Raw(bytes(64)))
    add("redirect", ip(dst="2001:db8:1::9") / datagram())
    add("mac-broadcast", ip() / datagram(), to="ff:ff:ff:ff:ff:ff")
    add("mac-multicast", ip() / datagram(), to="33:33:00:00:00:01")
    add("mac-other", ip() / datagram(), to="02:00:00:00:39:77")
    add("tag-priority", Dot1Q(vlan=0, prio=5) / (ip() / datagram()))
    add("tag-vlan", Dot1Q(vlan=5) / (ip() / datagram()))
    add("as-v4", ip() / datagram(), kind=0x0800)
    return kinds


def told(frame):
    """Describes a frame that has left a router: its octets if it was forwarded, what an error says if the router has made it."""
    packet = Ether(frame)
    # Questions for addresses.
    if packet.type in (0x0806,) or (IPv6 in packet and packet[IPv6].dst.startswith("ff02:")):
        return None
    if ICMP in packet and packet[IP].src in (OWN, "198.51.100.1"):
        message = packet[ICMP]
        rest = bytes(message)[4:8].hex() if message.type in (3, 12) else ""
        return f"ICMP {message.type}/{message.code} {rest} from {packet[IP].src} to {packet[IP].dst}"
    if IPv6 in packet and packet[IPv6].src in (OWN6, "2001:db8:2::1") and packet[IPv6].nh == 58:
        message = bytes(packet[IPv6].payload)
        rest = message[4:8].hex() if message[0] in (2, 4) else ""
        return f"ICMPv6 {message[0]}/{message[1]} {rest} from {packet[IPv6].src} to {packet[IPv6].dst}"
    # The padding of short frames is not the router's.
    length = {0x0800: lambda: 14 + packet[IP].len, 0x86DD: lambda: 54 + packet[IPv6].plen}.get(packet.type, lambda: len(frame))()
    return f"to {packet.dst}: {frame[12:length].hex()}"


def marker(number, to_right):
    """A frame that crosses the router from one side to the other."""
    payload = UDP(sport=4001, dport=5001) / Raw(MARK + number.to_bytes(4, "big"))
    if to_right:
        return bytes(ether(IP(src=SOURCE, dst=TARGET, id=8) / payload))
    return bytes(ether(IP(src=TARGET, dst=SOURCE, id=8) / payload, to=RIGHT, source=FAR))


def received(links, seconds):
    """Yields what leaves the router within this time: the side, and the frame."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        for ready in select.select(links, [], [], left)[0]:
            frame, address = ready.recvfrom(65536)
            if address[2] != 4:  # PACKET_OUTGOING
                yield "left" if ready is links[0] else "right", frame


def cross(links, number, to_right):
    """Has a marker cross the router. Returns what else left it until then."""
    sender, due = (links[0], "right") if to_right else (links[1], "left")
    found, sent = [], marker(number, to_right)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        sender.send(sent)
        for side, frame in received(links, AGAIN):
            payload = frame[42:]
            if payload.startswith(MARK):
                if side == due and payload[len(MARK):].startswith(number.to_bytes(4, "big")):
                    return found
                continue
            text = told(frame)
            if text is not None:
                found.append(f"{side} {text}")
    sys.exit(f"marker {number} does not leave the router on the {due}")


def answers(links, number):
    """Collects what has left the router for what was sent before: all that leaves it before markers to both sides.

    The last one is behind what the router makes by a slower way than that by which the first one went.
    """
    markers = [(3 * number, True), (3 * number + 1, False), (3 * number + 2, True)]
    return sorted(text for at, to_right in markers for text in cross(links, at, to_right))


def main():
    links = [link(sys.argv[1], sys.argv[2]), link(sys.argv[3], sys.argv[4])]
    # The router may not be there yet, or have something to announce.
    answers(links, 0)
    for _ in received(links, 2.5):
        pass
    for number, (name, frame) in enumerate({**four(), **six()}.items(), 1):
        if name in NO_ROUTE:
            time.sleep(1.1)
        links[0].send(frame)
        print(json.dumps({"name": name, "out": answers(links, number)}), flush=True)
        time.sleep(PAUSE)


main()
