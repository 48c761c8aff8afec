//! NAPI instances, which poll the queues of interfaces, in a softirq or in a kernel thread of their own, by the family `netdev`
//! (`linux/netdev.h`, Linux 6.8).

use std::io;

use super::{Generic, Request};
use crate::attribute::{Attributes, attributes, number};

const FAMILY: &str = "netdev";
/// `NETDEV_CMD_NAPI_GET`.
const GET: u8 = 11;
/// `NETDEV_A_NAPI_IFINDEX`, `_ID` and `_PID`.
const INDEX: u16 = 1;
const ID: u16 = 2;
const THREAD: u16 = 4;

/// A NAPI instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Napi {
    /// Number, unique on the host.
    pub id: u32,
    /// Index of the interface.
    pub index: u32,
    /// Thread ID of its kernel thread, in the initial PID namespace; `None`: it has no thread.
    pub thread: Option<u32>,
}

impl Generic {
    /// Returns the NAPI instances of an interface; empty while it is down.
    ///
    /// # Errors
    /// ENODEV: there is no such interface. ENOENT: this kernel does not report them (Linux before 6.8).
    pub fn napis(&self, index: u32) -> io::Result<Vec<Napi>> {
        let asked = Attributes::default().number(INDEX, index);
        let question = Request { family: self.family(FAMILY)?, command: GET, attributes: &asked };
        match self.dump(question) {
            // Linux 6.3 to 6.7 have the family without this request.
            Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                Err(io::Error::from_raw_os_error(libc::ENOENT))
            }
            answer => Ok(answer?.iter().filter_map(|body| napi(body)).collect()),
        }
    }
}

/// Returns `None` if the number is missing.
pub(super) fn napi(body: &[u8]) -> Option<Napi> {
    let value = |wanted: u16| attributes(body).find(|(kind, _)| *kind == wanted).and_then(|(_, v)| number(v));
    Some(Napi { id: value(ID)?, index: value(INDEX)?, thread: value(THREAD) })
}
