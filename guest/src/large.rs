//! A source of frames that the NIC cuts into segments (TCP over IPv4): up to 64 KiB in one go.

use bootinfo::{NicModel, Trouble};
use frame::{Mac, checksum, ethernet, ipv4};
use router::{Buffer, HEAD, Platform};

use crate::boot::Vcpu;
use crate::e1000::{Chain, HEADERS, LONGEST, PIECE, Segmentation};
use crate::platform::Firmware;
use crate::roles;
use crate::serve::Duty;

/// Octets of the headers, which all lie in the first buffer.
const HEADERS_LEN: usize = HEADERS as usize;
/// Frames that one pass sends at most, so that the host is answered.
const FRAMES: usize = 8;
/// Ports: some, and discard (RFC 863).
const PORTS: (u16, u16) = (1024, 9);
/// Where the headers of IPv4 and TCP begin.
const IP: usize = ethernet::HEADER;
const TCP: usize = IP + ipv4::HEADER;

/// The source.
pub(crate) struct Large {
    headers: [u8; HEADERS_LEN],
    octets: usize,
    how: Segmentation,
    /// A frame that found no room yet.
    waiting: Chain,
    /// TCP's sequence number of the next frame.
    sequence: u32,
}

/// The source that the host asked for. None without an e1000, which alone cuts frames into segments, or with rings that
/// cannot hold one frame.
pub(crate) fn source(vcpu: &Vcpu) -> Result<Large, Trouble> {
    if vcpu.info.nics[0].model != NicModel::E1000 as u32 {
        return Err(Trouble::Nic);
    }
    let (orders, traffic) = (&vcpu.info.traffic, roles::traffic(vcpu)?);
    let segment = orders.segment_len as usize;
    let octets = (orders.frame_len as usize).clamp(HEADERS_LEN + 1, LONGEST);
    // A context descriptor, a descriptor for each buffer, and the one that stays free.
    if segment <= HEADERS_LEN || octets.div_ceil(PIECE) + 2 > vcpu.info.ring_size as usize {
        return Err(Trouble::BootInfo);
    }
    Ok(Large {
        headers: headers(&traffic),
        octets,
        how: Segmentation { mss: (segment - HEADERS_LEN).min(usize::from(u16::MAX)) as u16 },
        waiting: Chain::default(),
        sequence: 0,
    })
}

impl Duty for Large {
    const LISTENS: bool = false;

    fn pass(&mut self, firmware: &mut Firmware) -> usize {
        let sent = (0..FRAMES).take_while(|_| self.send(firmware)).count();
        roles::count(firmware, sent)
    }
}

impl Large {
    /// Sends a frame, if there is room.
    fn send(&mut self, firmware: &mut Firmware) -> bool {
        if self.waiting.buffers.is_empty() && !self.build(firmware) {
            return false;
        }
        firmware.room(0) >= self.waiting.descriptors()
            && firmware.transmit_chain(0, &mut self.waiting, &self.how)
    }

    /// Puts a frame together; false if there are not enough buffers.
    fn build(&mut self, firmware: &mut Firmware) -> bool {
        let mut left = self.octets;
        while left > 0 {
            let Some(mut buffer) = firmware.allocate() else {
                self.waiting.buffers.drain(..).for_each(|buffer| firmware.free(buffer));
                return false;
            };
            buffer.set_len(left.min(PIECE));
            left -= buffer.len();
            // As many as the longest frame takes, and that is no longer.
            let _ = self.waiting.buffers.try_push(buffer);
        }
        if let Some(first) = self.waiting.buffers.first_mut() {
            let head: &mut [u8; HEAD] = first.head();
            head[..HEADERS_LEN].copy_from_slice(&self.headers);
            head[TCP + 4..TCP + 8].copy_from_slice(&self.sequence.to_be_bytes());
        }
        self.sequence = self.sequence.wrapping_add((self.octets - HEADERS_LEN) as u32);
        true
    }
}

/// The headers as a driver hands them to the NIC: without lengths and IPv4's checksum, and with TCP's summed up over the
/// pseudo header only.
fn headers(traffic: &router::roles::Traffic) -> [u8; HEADERS_LEN] {
    let mut head = [0; HEADERS_LEN];
    let (from, to): (Mac, Mac) = (traffic.from_mac, traffic.to_mac);
    let ethernet = ethernet::Header { destination: to, source: from, ethertype: ethernet::IPV4 };
    let ip = ipv4::Header::new(ipv4::TCP, traffic.from_ip, traffic.to_ip, 0);
    let written = ethernet.write(&mut head).and_then(|()| ip.write(&mut head[IP..]));
    debug_assert!(written.is_ok());
    head[IP + 2..IP + 4].fill(0);
    head[IP + 10..IP + 12].fill(0);
    head[TCP..TCP + 2].copy_from_slice(&PORTS.0.to_be_bytes());
    head[TCP + 2..TCP + 4].copy_from_slice(&PORTS.1.to_be_bytes());
    head[TCP + 12] = 5 << 4;
    head[TCP + 13] = frame::tcp::ACK;
    head[TCP + 14..TCP + 16].copy_from_slice(&u16::MAX.to_be_bytes());
    let sum = checksum::sum(u16::from(ipv4::TCP), &head[IP + 12..IP + 20]);
    head[TCP + 16..TCP + 18].copy_from_slice(&sum.to_be_bytes());
    head
}
