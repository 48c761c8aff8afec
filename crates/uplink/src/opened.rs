//! What was opened outside for a NIC, in one shape for whatever it is: so that who may open it can hand it to who serves
//! it, in another process, and keep it meanwhile.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::tap::Traits;
use crate::{Door, Error, Tap, Xdp, XdpParts};

/// Something of the host that a NIC is plugged into.
#[derive(Debug)]
pub enum Opened {
    /// A TAP.
    Tap(Tap),
    /// A file that takes a capture.
    Capture(File),
    /// A file that takes a capture, and one whose frames come in.
    Replay {
        /// What takes the capture.
        capture: File,
        /// Whose frames come in.
        replay: File,
        /// As they were captured; otherwise as fast as they are taken.
        recorded: bool,
    },
    /// An interface by AF_XDP.
    Xdp(Xdp),
    /// A socket by which a vhost-user peer comes.
    Door(Door),
}

/// What an [`Opened`] is, beside its descriptors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Description {
    /// A TAP.
    Tap {
        /// Name of the interface.
        interface: String,
        /// How many queues, each a descriptor.
        queues: usize,
        /// What it can.
        #[serde(default)]
        traits: Traits,
        /// Whether one more descriptor takes wishes for a queue length.
        #[serde(default)]
        wishes: bool,
    },
    /// A file that takes a capture.
    Capture,
    /// A file that takes a capture, and one whose frames come in.
    Replay {
        /// As they were captured; otherwise as fast as they are taken.
        recorded: bool,
    },
    /// An interface by AF_XDP.
    Xdp(XdpParts),
    /// A socket of vhost-user.
    Door {
        /// Its path.
        path: PathBuf,
        /// Whether we listen; otherwise the peer does.
        listens: bool,
    },
}

impl Opened {
    /// What it is; goes with [`Opened::descriptors`].
    pub fn describe(&self) -> Description {
        match self {
            Self::Tap(tap) => {
                let (interface, queues) = (tap.name().to_owned(), tap.descriptors().len());
                let wishes = tap.wishes().is_some();
                Description::Tap { interface, queues, traits: tap.traits().clone(), wishes }
            }
            Self::Capture(_) => Description::Capture,
            Self::Replay { recorded, .. } => Description::Replay { recorded: *recorded },
            Self::Xdp(xdp) => Description::Xdp(xdp.parts().clone()),
            Self::Door(door) => Description::Door { path: door.path().to_owned(), listens: door.listens() },
        }
    }

    /// Its descriptors, to be sent to another process.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        match self {
            Self::Tap(tap) => tap.descriptors().chain(tap.wishes()).collect(),
            Self::Capture(file) => vec![file.as_fd()],
            Self::Replay { capture, replay, .. } => vec![capture.as_fd(), replay.as_fd()],
            Self::Xdp(xdp) => xdp.descriptors().collect(),
            Self::Door(door) => vec![door.descriptor()],
        }
    }

    /// What another process has opened: takes as many of `descriptors` as belong to it.
    ///
    /// # Errors
    /// There are too few, or they are not what the description says.
    pub fn adopt(
        description: &Description,
        descriptors: &mut dyn Iterator<Item = OwnedFd>,
    ) -> Result<Self, Error> {
        Ok(match description {
            Description::Tap { interface, queues, traits, wishes } => {
                let queues = several(descriptors, *queues)?;
                let tap = Tap::from_descriptors(interface, queues, traits.clone())?;
                Self::Tap(if *wishes { tap.wishing(one(descriptors)?) } else { tap })
            }
            Description::Capture => Self::Capture(one(descriptors)?.into()),
            Description::Replay { recorded } => Self::Replay {
                capture: one(descriptors)?.into(),
                replay: one(descriptors)?.into(),
                recorded: *recorded,
            },
            Description::Xdp(parts) => {
                let sockets = several(descriptors, Xdp::descriptors_of(parts))?;
                Self::Xdp(Xdp::from_parts(parts.clone(), sockets)?)
            }
            Description::Door { path, listens } => Self::Door(Door::adopt(path, *listens, one(descriptors)?)),
        })
    }

    /// Gives a device another MTU and queue length, where it has them and is ours.
    ///
    /// # Errors
    /// The device does not take them.
    pub fn resize(&self, mtu: u32, queue_len: u32) -> Result<(), Error> {
        match self {
            Self::Tap(tap) => tap.resize(mtu, queue_len),
            Self::Xdp(xdp) => xdp.resize(mtu),
            Self::Capture(_) | Self::Replay { .. } | Self::Door(_) => Ok(()),
        }
    }

    /// Whether the interface that it is at is still there, if it is at one.
    pub fn is_there(&self) -> bool {
        match self {
            Self::Tap(tap) => tap.is_there(),
            Self::Xdp(xdp) => xdp.is_there(),
            Self::Capture(_) | Self::Replay { .. } | Self::Door(_) => true,
        }
    }

    /// Whether the interface that it is at is made by us, and not only taken.
    pub const fn is_made(&self) -> bool {
        matches!(self, Self::Tap(_))
    }

    /// It, if it is a TAP or something like it.
    pub fn tap(&self) -> Option<&Tap> {
        match self {
            Self::Tap(tap) => Some(tap),
            _ => None,
        }
    }

    /// What the host did not give, where it can do without: one line.
    pub fn notice(&self) -> Option<String> {
        match self {
            Self::Tap(tap) => tap.notice(),
            _ => None,
        }
    }

    /// Queues that it was made with, where that is a number that matters, and what has them.
    pub fn queues(&self) -> Option<(usize, String)> {
        match self {
            Self::Tap(tap) => Some((tap.descriptors().len(), format!("the TAP `{}`", tap.name()))),
            Self::Capture(_) | Self::Replay { .. } | Self::Xdp(_) | Self::Door(_) => None,
        }
    }

    /// The door, if it is one.
    pub fn door(&self) -> Option<&Door> {
        match self {
            Self::Door(door) => Some(door),
            _ => None,
        }
    }
}

fn one(descriptors: &mut dyn Iterator<Item = OwnedFd>) -> Result<OwnedFd, Error> {
    let missing = || io::Error::from_raw_os_error(libc::EBADF);
    descriptors.next().ok_or_else(|| Error::system("taking over what was opened for a NIC", missing()))
}

fn several(descriptors: &mut dyn Iterator<Item = OwnedFd>, count: usize) -> Result<Vec<OwnedFd>, Error> {
    (0..count).map(|_| one(descriptors)).collect()
}
