//! Ports and their virtual functions, as sysfs shows them (Documentation/ABI/testing/sysfs-bus-pci).
//!
//! ```text
//!   class/net/eth0/device ------> 0000:01:00.0 of bus/pci/devices: a port
//!       sriov_totalvfs, sriov_numvfs            maximum and present number of functions
//!       virtfn0, virtfn1 ...  --> 0000:01:10.0  its functions;  there:  physfn --> 0000:01:00.0
//!       driver                --> .../igb       its driver;     there:  driver --> .../igbvf
//!       net/eth0                                its interface, if it is in the namespace of this sysfs mount
//! ```
//!
//! Only the last component of a symbolic link is used, and each device is looked up below `bus/pci/devices`. So a tree in another
//! place, or a detached mount, reads like that of the host.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::{Address, Error};

/// Maximum number of functions that are read; present ports have up to 256.
const MOST: u32 = 1024;
/// Interval between two checks for an interface that is about to appear.
const LOOK: Duration = Duration::from_millis(5);

/// A NIC, or a port of a NIC, that supports SR-IOV (a physical function).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// PCI address.
    pub address: Address,
    /// Interface, if it is in our namespace; the first by name if the device has several.
    pub interface: Option<String>,
    /// Name of the driver, if one is bound.
    pub driver: Option<String>,
    /// Maximum number of functions.
    pub max_functions: u32,
    /// Present functions, in the order of their numbers.
    pub functions: Vec<Function>,
}

/// A virtual function: a PCI device that is a share of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Number at the port, from 0.
    pub number: u32,
    /// PCI address.
    pub address: Address,
    /// Interface, if it is in our namespace.
    pub interface: Option<String>,
    /// Name of the driver, if one is bound.
    pub driver: Option<String>,
}

/// Location of a function's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location<'a> {
    /// In our namespace, under this name.
    Here(&'a str),
    /// It has this driver and no interface here: the interface is in another namespace, or the driver creates none (vfio-pci).
    Elsewhere(&'a str),
    /// It has no driver.
    Idle,
}

impl Port {
    /// Name for error messages: the interface, or else the PCI address.
    pub fn label(&self) -> String {
        self.interface.clone().unwrap_or_else(|| self.address.to_string())
    }

    /// Returns the function of this number.
    pub fn function(&self, number: u32) -> Option<&Function> {
        self.functions.iter().find(|function| function.number == number)
    }

    /// Returns the present number of functions.
    pub fn count(&self) -> u32 {
        self.functions.len() as u32
    }
}

impl Function {
    /// Returns the location of the function's interface.
    pub fn place(&self) -> Location<'_> {
        match (&self.interface, &self.driver) {
            (Some(interface), _) => Location::Here(interface),
            (None, Some(driver)) => Location::Elsewhere(driver),
            (None, None) => Location::Idle,
        }
    }
}

/// A sysfs tree.
#[derive(Clone, Debug)]
pub struct Sysfs {
    root: PathBuf,
    /// The detached mount that `root` leads to, if there is one.
    _mounted: Option<Arc<OwnedFd>>,
}

impl Sysfs {
    /// Uses the tree below a directory.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), _mounted: None }
    }

    /// Mounts the host's sysfs, with the interfaces of the calling thread's network namespace. The mount is detached, and
    /// disappears with this value. Falls back to `/sys` if it cannot be mounted.
    pub fn here() -> Self {
        match mount() {
            Ok(mounted) => Self {
                root: format!("/proc/self/fd/{}", mounted.as_raw_fd()).into(),
                _mounted: Some(Arc::new(mounted)),
            },
            Err(_) => Self::at("/sys"),
        }
    }

    /// Returns all ports that support SR-IOV, in the order of their addresses.
    pub fn ports(&self) -> Vec<Port> {
        let addresses = names(&self.root.join("bus/pci/devices")).into_iter();
        let mut ports: Vec<Port> = addresses.filter_map(|name| self.read(name.parse().ok()?)).collect();
        ports.sort_by_key(|port| port.address);
        ports
    }

    /// Returns the port that has an interface of this name, or a function with one.
    ///
    /// # Errors
    /// One line: there is no such interface, it is no PCI device, or it does not support SR-IOV.
    pub fn port_of(&self, interface: &str) -> Result<Port, Error> {
        let named = || interface.to_owned();
        // A name that could leave the directory is no interface.
        if interface.is_empty() || interface.contains('/') || interface.starts_with('.') {
            return Err(Error::NoInterface { interface: named() });
        }
        let folder = self.root.join("class/net").join(interface);
        if fs::symlink_metadata(&folder).is_err() {
            return Err(Error::NoInterface { interface: named() });
        }
        let device = address(&folder.join("device")).ok_or_else(|| Error::NotPci { interface: named() })?;
        let port = address(&self.device(device).join("physfn")).unwrap_or(device);
        self.read(port).ok_or_else(|| Error::NoSriov { interface: named() })
    }

    /// Reads a port. `None`: the device is gone, or does not support SR-IOV.
    pub fn read(&self, address: Address) -> Option<Port> {
        let folder = self.device(address);
        let max_functions =
            number(&folder.join("sriov_totalvfs")).filter(|max_functions| *max_functions > 0)?;
        // One of them may have been removed from the bus, and those behind it have stayed.
        let functions =
            (0..max_functions.min(MOST)).filter_map(|number| self.function(&folder, number)).collect();
        Some(Port {
            address,
            interface: self.interface(address),
            driver: last_name(&folder.join("driver")),
            max_functions,
            functions,
        })
    }

    /// Returns the interface of a device, if it has one here.
    pub fn interface(&self, address: Address) -> Option<String> {
        names(&self.device(address).join("net")).into_iter().min()
    }

    /// Waits until a device has an interface here, and returns it. `None`: none has appeared within `patience`.
    pub fn await_interface(&self, address: Address, patience: Duration) -> Option<String> {
        let end = Instant::now() + patience;
        loop {
            match self.interface(address) {
                None if Instant::now() < end => sleep(LOOK),
                found => return found,
            }
        }
    }

    /// Sets the number of functions of a port, to one of the numbers that [`crate::plan_function_count`] returns. The kernel creates the
    /// functions and probes their drivers within the system call.
    ///
    /// # Errors
    /// The driver refuses, or the caller is not root.
    pub fn set_function_count(&self, port: &Port, count: u32) -> Result<(), Error> {
        let file = self.device(port.address).join("sriov_numvfs");
        let what = || format!("setting the number of virtual functions of `{}` to {count}", port.label());
        fs::write(file, count.to_string()).map_err(|answer| Error::system(what(), answer))
    }

    /// Unbinds the driver of a device and binds it again. For a device without a driver the kernel looks for one: binding it again
    /// may have failed before.
    pub(crate) fn rebind(&self, address: Address) -> io::Result<()> {
        let (bus, device) = (self.root.join("bus/pci"), address.to_string());
        let Some(driver) = last_name(&self.device(address).join("driver")) else {
            return fs::write(bus.join("drivers_probe"), device);
        };
        let folder = bus.join("drivers").join(driver);
        ["unbind", "bind"].into_iter().try_for_each(|file| fs::write(folder.join(file), &device))
    }

    fn device(&self, address: Address) -> PathBuf {
        self.root.join("bus/pci/devices").join(address.to_string())
    }

    fn function(&self, port: &Path, number: u32) -> Option<Function> {
        let address = address(&port.join(format!("virtfn{number}")))?;
        let driver = last_name(&self.device(address).join("driver"));
        Some(Function { number, address, interface: self.interface(address), driver })
    }
}

fn mount() -> io::Result<OwnedFd> {
    let context = fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?)
}

/// Names of the entries of a directory; empty if there is no such directory.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Last component of the target of a symbolic link.
fn last_name(link: &Path) -> Option<String> {
    Some(fs::read_link(link).ok()?.file_name()?.to_str()?.to_owned())
}

fn address(link: &Path) -> Option<Address> {
    last_name(link)?.parse().ok()
}

fn number(file: &Path) -> Option<u32> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}
