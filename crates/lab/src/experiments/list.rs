//! The experiments by name.

use super::{PortToPort, RingToRing, Through};
use crate::experiment::{Experiment, Options};

/// Names, and what each measures.
pub const LIST: [(&str, &str); 3] = [
    ("generator", "generator to sink in one thread: the measuring room's own speed"),
    ("switch", "the learning switch in one thread: port to port, and ring to ring with 256 and 1024 entries"),
    ("wire", "ring to ring in one thread with nothing in between: what the switch is compared with"),
];

/// The cases of an experiment of [`LIST`]; none if the name is not there. They run in the calling thread: pin it to
/// [`Options::cpu`] 0 before.
pub fn cases(name: &str, options: &Options) -> Option<Vec<Box<dyn Experiment>>> {
    let rings = |through| [256, 1024].map(|entries| boxed(RingToRing::new(through, options, entries)));
    Some(match name {
        "generator" => vec![boxed(PortToPort::new(Through::Wire, options))],
        "switch" => {
            let ports = boxed(PortToPort::new(Through::Switch, options));
            std::iter::once(ports).chain(rings(Through::Switch)).collect()
        }
        "wire" => rings(Through::Wire).into(),
        _ => return None,
    })
}

fn boxed(experiment: impl Experiment + 'static) -> Box<dyn Experiment> {
    Box::new(experiment)
}
