//! Groups of counters, by writer.

use crate::counters;

counters! {
    /// One direction of one NIC, written by the host's side of its rings. `rx` is towards the router.
    pub struct NicDirection {
        /// Frames moved through the ring.
        frames,
        /// Octets of those frames, without virtio headers and FCS.
        bytes,
        /// Bursts in which they moved.
        batches,
        /// Polls of the ring that found no frame to move.
        polls_empty,
        /// Notifications that arrived from the driver.
        kicks,
        /// Interrupts sent to the guest; for an e1000, occasions for one, which its mask may still suppress.
        interrupts,
        /// Publications after which no interrupt was sent, because the driver had asked for none.
        interrupts_suppressed,
        /// Times the thread that serves this ring went to sleep on it.
        sleeps,
        /// Frames lost because the driver had posted no buffer.
        drop_no_buffer,
        /// Frames lost because they did not fit the posted buffers or the largest frame.
        drop_too_long,
        /// Frames lost because they were shorter than an Ethernet header.
        drop_too_short,
        /// Frames lost because the device was not running (reset, link down, not yet configured).
        drop_not_running,
        /// Frames lost because the ring was broken by the driver.
        drop_bad_ring,
        /// Frames for a station, group or VLAN that the driver's filters exclude.
        drop_filtered,
        /// Packets lost because they cannot be segmented as the driver requested, or because the driver has
        /// stopped accepting their offloads while they were on the way.
        drop_bad_offload,
        /// Moved frames whose checksum is left to the consumer.
        left_checksum,
        /// Moved frames whose segmentation is left to the consumer: large ones.
        left_segments,
        /// Frames whose checksum was filled in here, because this side does not accept the offload.
        done_checksum,
        /// Large frames that were segmented here, because this side does not accept the offload.
        done_segmented,
        /// Segments made of them.
        done_segments,
    }

    /// Accesses to the registers of an e1000, by register: each access except the collected ones is an exit
    /// to the VMM. (In a process it is a request to the VMM.)
    pub struct E1000Registers {
        /// Reads of ICR, the causes of an interrupt.
        icr_read,
        /// Writes of IMC, which masks causes.
        imc_write,
        /// Reads of STATUS, by which a driver makes sure that its writes have taken effect.
        status_read,
        /// Writes of IMS, which unmasks causes.
        ims_write,
        /// Writes of TDT, the tail of the transmit ring.
        tdt_write,
        /// Writes of RDT, the tail of the receive ring.
        rdt_write,
        /// Reads of any other register.
        other_read,
        /// Writes to any other register.
        other_write,
        /// Writes of TDT that the kernel collected, without an exit to the VMM.
        coalesced_tdt,
        /// Invalid accesses among those above: to no register, not of a whole one, or with a tail outside its
        /// ring.
        senseless,
    }

    /// Interrupts of one NIC.
    pub struct NicInterrupts {
        /// Interrupts sent to the guest: messages, or rises of the pin.
        raised,
        /// Occasions for an interrupt that did not cause one: the driver did not want it, had masked it, or
        /// had not yet taken the previous one.
        suppressed,
        /// Occasions for an interrupt that moderation delayed, because it would have followed the previous
        /// one too soon.
        moderated,
    }

    /// One port of a switch.
    pub struct PortCounters {
        /// Frames that entered the switch at this port.
        in_frames,
        /// Octets of those frames.
        in_bytes,
        /// Copies of frames that left by this port.
        out_frames,
        /// Octets of those copies.
        out_bytes,
        /// Frames entered here that were flooded to every other port because their destination was unknown.
        flood_unknown,
        /// Frames entered here that were flooded to every other port because they are broadcast or multicast.
        flood_broadcast,
        /// Frames entered here whose destination is behind this port itself.
        drop_same_port,
        /// Frames entered here that are shorter than an Ethernet header or have a multicast source address.
        drop_malformed,
        /// Frames entered here that are for the other end of the cable only: pauses (IEEE 802.3, annex 31B).
        drop_pause,
        /// Copies that this port's receiver did not accept because its queue was full.
        drop_full,
        /// Source addresses that moved to this port from another one.
        moves,
        /// Source addresses learned at this port.
        learned,
        /// Frames entered here that were sent to the one port behind which their destination is.
        forwarded,
        /// Copies made of the flooded frames that entered here.
        flood_copies,
        /// Frames that arrived after the port had been removed from its switch.
        drop_removed,
        /// Frames whose source address could not be learned because the address table was full.
        table_full,
    }

    /// One NIC from the router's side, written by one vCPU.
    pub struct RouterNic {
        /// Frames received.
        rx_frames,
        /// Octets received.
        rx_bytes,
        /// Frames passed to the driver for transmission.
        tx_frames,
        /// Octets passed to the driver.
        tx_bytes,
        /// Bursts received.
        rx_bursts,
        /// Notifications sent to the device.
        kicks,
        /// Publications after which no notification was sent, because the device had asked for none.
        kicks_suppressed,
        /// Times an interrupt of this NIC was armed before sleeping.
        arms,
        /// Frames lost because the transmit ring was full.
        drop_tx_full,
        /// Multi-buffer frames lost because there was no buffer for the list of their parts, or the device
        /// left one out; frames of an e1000 that are longer than a buffer.
        drop_rx_pieces,
    }

    /// One interface for a VLAN from the router's side, written by one vCPU.
    pub struct VlanCounters {
        /// Frames received in this VLAN.
        in_frames,
        /// Octets of those frames, without their tags.
        in_bytes,
        /// Frames sent into this VLAN.
        out_frames,
        /// Octets of those frames, without their tags.
        out_bytes,
    }

    /// Outcome of the frames of one vCPU's router.
    pub struct RouterCounters {
        /// Frames forwarded from one NIC to another (or out of the same one).
        forwarded,
        /// Frames answered, created or consumed by the router itself: ARP, ICMP echo.
        consumed,
        /// Frames created by the router itself (ARP requests and replies, ICMP, fragments after the first).
        originated,
        /// Frames of the router itself that it could not send: no buffer, no route, no neighbour.
        originated_lost,
        /// Passes of the main loop.
        polls,
        /// Passes without any work.
        polls_empty,
        /// Times the vCPU halted.
        sleeps,
        /// Frames for another station, or shorter than their headers.
        drop_ethernet,
        /// Frames of a protocol that the router does not support.
        drop_protocol,
        /// IPv4 and IPv6 headers with a wrong version, length or checksum, or malformed extension headers.
        drop_ip_header,
        /// Packets with a source or destination that must not be forwarded: of this network (0.0.0.0/8),
        /// loopback, multicast, reserved, or the broadcast address of a network that the router is in (RFC
        /// 1812, 5.3.5 and 5.3.7).
        drop_martian,
        /// Packets whose source is an address of the router itself, which it did not send (RFC 1812, 5.3.7).
        drop_own_source,
        /// Packets whose time to live expired here.
        drop_ttl,
        /// Packets for which there is no route.
        drop_no_route,
        /// Packets larger than the next link's MTU that may not be fragmented.
        drop_mtu,
        /// Packets lost while they waited for a neighbour that did not answer, or because its queue was full.
        drop_no_neighbour,
        /// Packets for the router itself that it does not handle.
        drop_local,
        /// ICMP errors that were not sent because of their rate limit.
        icmp_suppressed,
        /// Packets that had to be fragmented while there were not enough free buffers.
        drop_no_memory,
        /// ARP packets by which another station claims an address of the router.
        arp_conflicts,
        /// Neighbour discovery messages by which another station claims an IPv6 address of the router.
        nd_conflicts,
        /// IPv6 packets to a group that the router does not listen to.
        drop_multicast,
        /// Packets with an option that the router does not know, and that asks for the packet to be dropped.
        drop_option,
        /// Packets whose source has determined their way: IPv4 source routes, and IPv6 routing headers to the router.
        drop_source_route,
        /// Fragments for the router itself that were not reassembled in time, did not fit together, or were too many.
        drop_reassembly,
        /// Packets from sources to which no route leads back, at a NIC with a filter of sources (`rpf`).
        drop_reverse_path,
        /// Packets to destinations whose route refuses them: blackhole, unreachable, prohibit.
        drop_refused,
        /// Frames to a VLAN that have no room for its tags.
        drop_tag,
        /// Packets to unknown neighbours from a source that has caused too many requests.
        drop_neighbour_paced,
        /// Requests for neighbours that were sent: ARP and neighbour solicitations, probes included.
        neighbour_requests,
        /// Neighbours that did not answer any request.
        neighbours_failed,
        /// Neighbours that took the place of another one, because the neighbour table was full.
        neighbours_replaced,
        /// Packets that left by the NIC that they came from although their sender could have sent them to the next hop
        /// itself, for which a redirect was sent, or would have been sent if that was switched on.
        redirects,
    }

    /// Counters of a guest that counts frames instead of forwarding them.
    pub struct SinkTally {
        /// All frames.
        frames,
        /// Sequence numbers that were skipped within a flow and did not arrive later.
        lost,
        /// Frames that arrived after a later one of their flow.
        reordered,
        /// Frames that do not come from a source.
        foreign,
    }

    /// Cost of frames for the thread that moves them, from timed passes: a sample of those that moved frames.
    pub struct WorkCounters {
        /// Cycles of the time-stamp counter spent in these passes.
        cycles,
        /// Frames moved in them.
        frames,
        /// Number of timed passes.
        passes,
        /// Passes discarded because the thread was off its core meanwhile.
        torn,
    }

    /// Exits of one vCPU from guest mode to the VMM, by reason.
    pub struct VcpuExits {
        /// Reads of PCI configuration space.
        pci_config_read,
        /// Writes to PCI configuration space.
        pci_config_write,
        /// Reads of device registers.
        register_read,
        /// Writes to device registers.
        register_write,
        /// Port input and output.
        port_io,
        /// Halts that reached the VMM.
        halt,
        /// Exits caused by a signal.
        interrupted,
        /// Exits for any other reason.
        other,
        /// Accesses after which the vCPU was delayed, because it causes costly work on the host too often.
        paced,
    }
}

impl WorkCounters {
    /// Counts a pass that took this many cycles for this many frames.
    #[inline]
    pub fn add_pass(&self, cycles: u64, frames: u64) {
        self.cycles.add(cycles);
        self.frames.add(frames);
        self.passes.add(1);
    }
}
