//! Number of virtual functions of a port.

use crate::{Error, Location, Port};

/// Plans the writes to `sriov_numvfs` after which a port has `wanted` functions, in order. The kernel accepts a change only from
/// 0 or to 0 (`sriov_numvfs_store` returns EBUSY otherwise), so changing one non-zero number to another takes two writes.
///
/// `used` are the numbers of functions that routers of this run hold. A function whose interface is not in our namespace also
/// counts as used.
///
/// # Errors
/// One line: the port does not support so many, or all functions would have to be removed and one is in use.
pub fn plan_function_count(port: &Port, wanted: u32, used: &[u32]) -> Result<Vec<u32>, Error> {
    let now = port.count();
    if wanted > port.max_functions {
        return Err(Error::TooMany { port: port.label(), wanted, most: port.max_functions });
    }
    if wanted == now {
        return Ok(Vec::new());
    }
    let elsewhere =
        port.functions.iter().filter(|function| matches!(function.place(), Location::Elsewhere(_)));
    let busy = elsewhere.map(|function| function.number).chain(used.iter().copied()).min();
    match busy {
        Some(busy) if now > 0 => Err(Error::Busy { port: port.label(), now, wanted, busy }),
        _ if now == 0 || wanted == 0 => Ok(vec![wanted]),
        _ => Ok(vec![0, wanted]),
    }
}
