//! The kernel's counters of a router: frames by interface, and packets by their fate.

use std::collections::BTreeMap;

use ledger::counters;
use netlink::Statistics;

counters! {
    /// Counters of an interface of a kernel router, as the kernel keeps them; `rx` is what the router received.
    pub struct InterfaceCounters {
        /// Frames received.
        rx_frames,
        /// Octets received.
        rx_bytes,
        /// Frames sent.
        tx_frames,
        /// Octets sent.
        tx_bytes,
        /// Multicast frames received.
        rx_multicast,
        /// Damaged frames received.
        drop_rx_damaged,
        /// Frames received and lost: no protocol wanted them, or there was no room.
        drop_rx,
        /// Frames lost because the device had no room for them.
        drop_rx_missed,
        /// Frames that could not be sent.
        drop_tx_failed,
        /// Frames lost on transmission: the other end took none, or its queue was full.
        drop_tx,
    }

    /// Packets of a kernel router by their fate, of one family (RFC 4293; `Ip` of /proc/net/snmp, `IpExt` and `TcpExt` of
    /// /proc/net/netstat; /proc/net/snmp6). Each received packet was forwarded, delivered or dropped under a name. Exceptions are fragments, which are counted singly
    /// on arrival and together on delivery, and packets that a filter (nft(8)) drops.
    pub struct PacketCounters {
        /// Packets received.
        in_packets,
        /// Octets of those packets.
        in_bytes,
        /// Packets forwarded to another interface.
        forwarded,
        /// Packets delivered to the router itself.
        delivered,
        /// Packets that the router itself sent.
        out_own,
        /// Packets sent.
        out_packets,
        /// Octets of those packets.
        out_bytes,
        /// Packets lost because of a damaged header, or because their time to live was exceeded.
        drop_ip_header,
        /// Packets lost because their destination address is invalid.
        drop_martian,
        /// Packets lost because no route leads to their destination.
        drop_no_route,
        /// Packets lost because their source is not reached by the interface on which they arrived (`rp_filter`).
        drop_reverse_path,
        /// Packets lost because they are shorter than their header says.
        drop_truncated,
        /// Packets for the router itself whose protocol is unknown.
        drop_protocol,
        /// Packets lost on input because memory was exhausted.
        drop_no_memory,
        /// Packets lost on output: memory was exhausted, or a neighbour did not answer.
        drop_out,
        /// Packets of the router itself for which there is no route.
        drop_own_no_route,
        /// Packets larger than the next link's MTU that may not be fragmented.
        drop_mtu,
    }
}

/// Counters of a router.
#[derive(Debug, Default)]
pub struct Counters {
    /// Counters of its interfaces, by name.
    pub interfaces: BTreeMap<String, InterfaceCounters>,
    /// Counters of its IPv4 packets.
    pub packets: PacketCounters,
    /// Counters of its IPv6 packets; `None`: it does not take part in IPv6.
    pub packets_six: Option<PacketCounters>,
}

impl From<&Statistics> for InterfaceCounters {
    fn from(counted: &Statistics) -> Self {
        let all = Self::default();
        all.rx_frames.add(counted.rx_frames);
        all.rx_bytes.add(counted.rx_bytes);
        all.tx_frames.add(counted.tx_frames);
        all.tx_bytes.add(counted.tx_bytes);
        all.rx_multicast.add(counted.multicast);
        all.drop_rx_damaged.add(counted.rx_errors);
        all.drop_rx.add(counted.rx_dropped);
        all.drop_rx_missed.add(counted.rx_missed);
        all.drop_tx_failed.add(counted.tx_errors);
        all.drop_tx.add(counted.tx_dropped);
        all
    }
}

impl PacketCounters {
    /// Parses the texts of /proc/net/snmp and /proc/net/netstat. Values that a kernel does not report are 0.
    pub(crate) fn of(snmp: &str, netstat: &str) -> Self {
        let (snmp, netstat) = (table(snmp), table(netstat));
        let ip = |name| snmp.get(&("Ip", name)).copied().unwrap_or(0);
        let more = |group, name| netstat.get(&(group, name)).copied().unwrap_or(0);
        let all = Self::default();
        all.in_packets.add(ip("InReceives"));
        all.in_bytes.add(more("IpExt", "InOctets"));
        all.forwarded.add(ip("ForwDatagrams"));
        all.delivered.add(ip("InDelivers"));
        all.out_own.add(ip("OutRequests"));
        all.out_packets.add(ip("OutTransmits"));
        all.out_bytes.add(more("IpExt", "OutOctets"));
        all.drop_ip_header.add(ip("InHdrErrors"));
        all.drop_martian.add(ip("InAddrErrors"));
        all.drop_no_route.add(more("IpExt", "InNoRoutes"));
        all.drop_reverse_path.add(more("TcpExt", "IPReversePathFilter"));
        all.drop_truncated.add(more("IpExt", "InTruncatedPkts"));
        all.drop_protocol.add(ip("InUnknownProtos"));
        all.drop_no_memory.add(ip("InDiscards"));
        all.drop_out.add(ip("OutDiscards"));
        all.drop_own_no_route.add(ip("OutNoRoutes"));
        all.drop_mtu.add(ip("FragFails"));
        all
    }

    /// Parses the text of /proc/net/snmp6, a line for each counter. The kernel has no reverse path filter for IPv6.
    pub(crate) fn of_six(snmp6: &str) -> Self {
        let counted: BTreeMap<&str, u64> = snmp6.lines().filter_map(named).collect();
        let ip = |name: &str| counted.get(name).copied().unwrap_or(0);
        let all = Self::default();
        all.in_packets.add(ip("Ip6InReceives"));
        all.in_bytes.add(ip("Ip6InOctets"));
        all.forwarded.add(ip("Ip6OutForwDatagrams"));
        all.delivered.add(ip("Ip6InDelivers"));
        all.out_own.add(ip("Ip6OutRequests"));
        all.out_packets.add(ip("Ip6OutTransmits"));
        all.out_bytes.add(ip("Ip6OutOctets"));
        all.drop_ip_header.add(ip("Ip6InHdrErrors"));
        all.drop_martian.add(ip("Ip6InAddrErrors"));
        all.drop_no_route.add(ip("Ip6InNoRoutes"));
        all.drop_truncated.add(ip("Ip6InTruncatedPkts"));
        all.drop_protocol.add(ip("Ip6InUnknownProtos"));
        all.drop_no_memory.add(ip("Ip6InDiscards"));
        all.drop_out.add(ip("Ip6OutDiscards"));
        all.drop_own_no_route.add(ip("Ip6OutNoRoutes"));
        all.drop_mtu.add(ip("Ip6InTooBigErrors"));
        all
    }
}

/// Parses a name and a number, with blanks between.
fn named(line: &str) -> Option<(&str, u64)> {
    let (name, number) = line.split_once(char::is_whitespace)?;
    Some((name, number.trim().parse().ok()?))
}

/// Parses a table of the kernel in which each group has a line of names, followed by a line of numbers.
fn table(text: &str) -> BTreeMap<(&str, &str), u64> {
    let mut lines = text.lines();
    let mut table = BTreeMap::new();
    while let (Some(names), Some(numbers)) = (lines.next(), lines.next()) {
        let Some((group, names)) = names.split_once(':') else { continue };
        let numbers = numbers.split_once(':').map_or("", |(_, numbers)| numbers);
        let rows = names.split_ascii_whitespace().zip(numbers.split_ascii_whitespace());
        // A negative number means that there is no limit; it is not a count.
        table.extend(rows.filter_map(|(name, number)| Some(((group, name), number.parse().ok()?))));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    const SNMP: &str = "\
Ip: Forwarding DefaultTTL InReceives InHdrErrors InAddrErrors ForwDatagrams InUnknownProtos InDiscards InDelivers OutRequests
Ip: 1 64 100 2 3 80 4 5 6 7
Tcp: RtoAlgorithm MaxConn ActiveOpens
Tcp: 1 -1 16
";
    const NETSTAT: &str = "\
TcpExt: SyncookiesSent IPReversePathFilter
TcpExt: 0 8
IpExt: InNoRoutes InTruncatedPkts InOctets
IpExt: 9 10 4000
";

    #[test]
    fn packets_are_counted_by_what_became_of_them() {
        let all = PacketCounters::of(SNMP, NETSTAT);
        assert_eq!([all.in_packets.get(), all.forwarded.get(), all.delivered.get()], [100, 80, 6]);
        assert_eq!([all.drop_ip_header.get(), all.drop_martian.get(), all.drop_no_route.get()], [2, 3, 9]);
        assert_eq!([all.drop_protocol.get(), all.drop_no_memory.get(), all.in_bytes.get()], [4, 5, 4000]);
        assert_eq!([all.drop_reverse_path.get(), all.drop_truncated.get()], [8, 10]);
        assert_eq!(all.out_packets.get(), 0, "an older kernel does not count them");
    }

    #[test]
    fn packets_of_ipv6_have_a_line_for_each_fate() {
        let text = "Ip6InReceives        \t100\nIp6OutForwDatagrams \t 80\nIp6InTooBigErrors\t7\n\
                    odd\nIp6InNoRoutes x\n";
        let all = PacketCounters::of_six(text);
        assert_eq!([all.in_packets.get(), all.forwarded.get(), all.drop_mtu.get()], [100, 80, 7]);
        assert_eq!([all.drop_no_route.get(), all.drop_reverse_path.get()], [0, 0]);
    }

    #[test]
    fn a_table_that_is_none_counts_nothing() {
        for text in ["", "Ip: A B", "no table\nat all", "Ip: A B\nIp: 1", "Ip: A\nIp: much"] {
            let all = PacketCounters::of(text, text);
            assert_eq!(all.in_packets.get(), 0, "{text}");
        }
        assert_eq!(table("Ip: A B\nIp: 1").get(&("Ip", "A")), Some(&1));
        assert!(!table(SNMP).contains_key(&("Tcp", "MaxConn")));
    }

    #[test]
    fn frames_are_counted_as_the_kernel_counts_them() {
        let counted = Statistics { rx_frames: 1, tx_dropped: 2, rx_missed: 3, ..Statistics::default() };
        let all = InterfaceCounters::from(&counted);
        assert_eq!([all.rx_frames.get(), all.drop_tx.get(), all.drop_rx_missed.get()], [1, 2, 3]);
    }
}
