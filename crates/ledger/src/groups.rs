//! The groups of counters, by who writes them.

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
        /// Times the ring was looked at and had nothing to move.
        polls_empty,
        /// Notifications that arrived from the driver.
        kicks,
        /// Interrupts sent to the guest; of an e1000, occasions for one, which its mask may still hold back.
        interrupts,
        /// Publications after which the driver had asked for no interrupt.
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
        /// Frames for a station, group or VLAN that the filters of the driver do not let pass.
        drop_filtered,
        /// Packets lost because they cannot be segmented as the driver asked.
        drop_bad_offload,
        /// Frames, among those moved, whose checksum is left to who comes next.
        left_checksum,
        /// Frames, among those moved, that are left to be segmented: large ones.
        left_segments,
        /// Frames whose checksum was filled in for this side.
        done_checksum,
        /// Large frames that were segmented for this side.
        done_segmented,
        /// Segments of those.
        done_segments,
    }

    /// Accesses to the registers of an e1000, by register: each but the last kind is an exit to the VMM. (In a process it
    /// is a question to the VMM.)
    pub struct E1000Registers {
        /// Reads of ICR, the causes of an interrupt.
        icr_read,
        /// Writes of IMC, which masks causes.
        imc_write,
        /// Reads of STATUS, by which a driver makes sure that its writes have arrived.
        status_read,
        /// Writes of IMS, which unmasks causes.
        ims_write,
        /// Writes of TDT, the end of the transmit ring.
        tdt_write,
        /// Writes of RDT, the end of the receive ring.
        rdt_write,
        /// Reads of any other register.
        other_read,
        /// Writes to any other register.
        other_write,
        /// Writes of TDT that the kernel collected: no exit to the VMM.
        coalesced_tdt,
        /// Accesses, among those above, that make no sense: of no register, not of a whole one, or a tail outside its ring.
        senseless,
    }

    /// Interrupts of one NIC.
    pub struct NicInterrupts {
        /// Interrupts sent to the guest: messages, or rises of the pin.
        raised,
        /// Occasions for an interrupt that led to none: the driver did not want it, had masked it, or had not yet taken
        /// the one before.
        suppressed,
        /// Occasions for an interrupt that moderation put off, as it would have come too soon after the one before.
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
        /// Entered frames that were sent to every other port because their destination was not known.
        flood_unknown,
        /// Entered frames that were sent to every other port because they are broadcast or multicast.
        flood_broadcast,
        /// Entered frames whose destination lies behind the port they came from.
        drop_same_port,
        /// Entered frames shorter than an Ethernet header or with a multicast source address.
        drop_malformed,
        /// Copies that this port's receiver did not take: its queue was full.
        drop_full,
        /// Source addresses that moved to this port from another one.
        moves,
        /// Source addresses learned at this port.
        learned,
        /// Entered frames that were sent to the one port behind which their destination lies.
        forwarded,
        /// Copies made of the flooded frames that entered here.
        flood_copies,
        /// Frames that came after the port had been removed from its switch.
        drop_removed,
        /// Frames whose source address could not be learned because the table had no place for it.
        table_full,
    }

    /// One NIC as the router sees it, written by one vCPU.
    pub struct RouterNic {
        /// Frames received.
        rx_frames,
        /// Octets received.
        rx_bytes,
        /// Frames handed to the driver for transmission.
        tx_frames,
        /// Octets handed to the driver.
        tx_bytes,
        /// Bursts received.
        rx_bursts,
        /// Notifications sent to the device.
        kicks,
        /// Publications for which the device had asked for no notification.
        kicks_suppressed,
        /// Times an interrupt of this NIC was armed before sleeping.
        arms,
        /// Frames lost because the transmit ring was full.
        drop_tx_full,
        /// Frames of several buffers lost because there was none for the list of them, or the device left one out.
        drop_rx_pieces,
    }

    /// What one vCPU's router did with the frames that it did not simply forward.
    pub struct RouterCounters {
        /// Frames forwarded from one NIC to another (or out of the same one).
        forwarded,
        /// Frames answered, created or consumed by the router itself: ARP, ICMP echo.
        consumed,
        /// Frames created by the router itself (ARP requests and replies, ICMP, fragments after the first).
        originated,
        /// Frames that the router wanted to create and could not send: no buffer, no route, no neighbour.
        originated_lost,
        /// Passes of the main loop.
        polls,
        /// Passes that found nothing to do.
        polls_empty,
        /// Times the vCPU halted.
        sleeps,
        /// Frames for another station, or shorter than their headers.
        drop_ethernet,
        /// Frames of a protocol that the router does not speak.
        drop_protocol,
        /// IPv4 headers with a wrong version, length or checksum.
        drop_ip_header,
        /// Packets with a source or destination that must not be forwarded: of this network (0.0.0.0/8), loopback, multicast,
        /// reserved, or the broadcast of a network that the router is in (RFC 1812, 5.3.5 and 5.3.7).
        drop_martian,
        /// Packets whose source is an address of the router itself, which it did not send (RFC 1812, 5.3.7).
        drop_own_source,
        /// Packets whose time to live ended here.
        drop_ttl,
        /// Packets for which there is no route.
        drop_no_route,
        /// Packets larger than the next link's MTU that may not be fragmented.
        drop_mtu,
        /// Packets that waited for a neighbour that did not answer, or found its queue full.
        drop_no_neighbour,
        /// Packets for the router itself that it has no use for.
        drop_local,
        /// ICMP errors that were not sent because of their rate limit.
        icmp_suppressed,
        /// Packets that had to be fragmented while there were not enough free buffers.
        drop_no_memory,
        /// ARP packets by which another station says that it has an address of the router.
        arp_conflicts,
    }

    /// What a guest that counts frames, instead of forwarding them, saw.
    pub struct SinkTally {
        /// Frames, whatever they were.
        frames,
        /// Numbers that were skipped within a flow and did not come later.
        lost,
        /// Frames that came after a later one of their flow.
        reordered,
        /// Frames that are not a source's.
        foreign,
    }

    /// What frames cost the thread that moves them, of the passes that were timed: one in some of those that moved something.
    pub struct WorkCounters {
        /// Cycles of the time-stamp counter that these passes took.
        cycles,
        /// Frames that they moved.
        frames,
        /// Passes.
        passes,
        /// Passes that were left out because the thread was away from its core meanwhile.
        torn,
    }

    /// Why one vCPU left guest mode for the VMM, and how often.
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
        /// Signals that took the vCPU out of the guest.
        interrupted,
        /// Any other reason.
        other,
        /// Accesses after which the vCPU had to wait, because it makes the host do costly work too often.
        paced,
    }
}

impl WorkCounters {
    /// Counts a pass that took so many cycles for so many frames.
    #[inline]
    pub fn add_pass(&self, cycles: u64, frames: u64) {
        self.cycles.add(cycles);
        self.frames.add(frames);
        self.passes.add(1);
    }
}
