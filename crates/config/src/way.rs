//! Questions for the way of a packet, to whom has the route table by which it was sent on, and their answers. They are no part of a file.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// What decides which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WayQuestion {
    /// Number of the route table; 0: that of NICs without a VRF.
    pub table: u8,
    /// Destination of the packet.
    pub destination: IpAddr,
    /// Hash of its flow, as its router computes it.
    pub flow: u32,
    /// Number of the link that it left by: NICs in the order of the file, then interfaces for VLANs.
    pub link: u8,
}

/// How a packet was sent on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    /// Network of the route, and its prefix length; `None`: the list of routes is elsewhere, or being changed.
    pub route: Option<(IpAddr, u8)>,
    /// Gateway of the route; `None`: the destination itself is behind the link.
    pub gateway: Option<IpAddr>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_and_its_answer_come_as_they_went() {
        let destination = IpAddr::from([10, 1, 2, 3]);
        let question = WayQuestion { table: 1, destination, flow: u32::MAX, link: 3 };
        let text = serde_json::to_string(&question).expect("text");
        assert_eq!(serde_json::from_str::<WayQuestion>(&text).expect("a question"), question);
        for gateway in [None, Some(IpAddr::from([0xfe80_u16, 0, 0, 0, 0, 0, 0, 9]))] {
            let way = Way { route: Some(([10, 0, 0, 0].into(), 8)), gateway };
            let text = serde_json::to_string(&way).expect("text");
            assert_eq!(serde_json::from_str::<Way>(&text).expect("a way"), way);
        }
    }
}
