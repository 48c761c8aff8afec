//! A sysfs tree like that of a host with an 82576 (igb, igbvf), as `find -L /sys/class/net /sys/bus/pci` shows it: a stand-in for ports
//! with virtual functions, which the hosts of the tests lack.

use std::fs::{self, create_dir_all, write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A device to be created in the tree.
#[derive(Clone, Copy, Debug)]
pub struct PciDevice<'a> {
    /// PCI address.
    pub address: &'a str,
    /// Name of the driver, if one is bound.
    pub driver: Option<&'a str>,
    /// Interface, if it is in the namespace of the tree.
    pub interface: Option<&'a str>,
}

/// The tree's directory; removed on drop. Its methods panic if the directory cannot be changed.
#[derive(Debug)]
pub struct PciTree {
    folder: TempDir,
}

impl PciTree {
    fn empty() -> Self {
        let tree = Self { folder: tempfile::tempdir().expect("a folder") };
        for folder in
            ["class/net", "bus/pci/devices", "bus/pci/drivers", "devices/pci0000:00", "devices/virtual/net"]
        {
            create_dir_all(tree.at(folder)).expect("a folder");
        }
        tree
    }

    /// A host with `eth0`, whose device supports seven functions and has three: one with an interface here, one with an
    /// interface in another namespace, one without a driver; `eth1`, which supports seven and has none; a NIC without SR-IOV, a
    /// veth and a virtio NIC.
    pub fn of_an_82576() -> Self {
        let tree = Self::empty();
        for (port, interface) in [("0000:01:00.0", "eth0"), ("0000:01:00.1", "eth1")] {
            tree.device(&PciDevice { address: port, driver: Some("igb"), interface: Some(interface) });
            tree.divide(port, 7);
        }
        let functions = [
            ("0000:01:10.0", Some("igbvf"), Some("eth2")),
            ("0000:01:10.2", Some("igbvf"), None),
            ("0000:01:10.4", None, None),
        ];
        for (number, (address, driver, interface)) in functions.into_iter().enumerate() {
            tree.device(&PciDevice { address, driver, interface });
            tree.join("0000:01:00.0", number as u32, address);
        }
        tree.device(&PciDevice { address: "0000:00:03.0", driver: Some("e1000"), interface: Some("eth9") });
        create_dir_all(tree.at("devices/virtual/net/veth0")).expect("a folder");
        link("../../devices/virtual/net/veth0", tree.at("class/net/veth0"));
        create_dir_all(tree.at("devices/pci0000:00/0000:00:04.0/virtio0/net/eth8")).expect("a folder");
        let virtio = "devices/pci0000:00/0000:00:04.0/virtio0/net/eth8";
        link("../../../virtio0", tree.at(virtio).join("device"));
        link(&format!("../../{virtio}"), tree.at("class/net/eth8"));
        tree
    }

    /// A host with the igb that QEMU 8 emulates: `eth0`, whose device has all of its eight functions, each with an interface here.
    /// The functions follow at an offset of 128 and a stride of 2 from the port, as the device's SR-IOV capability says.
    pub fn of_qemus_igb() -> Self {
        let tree = Self::empty();
        tree.device(&PciDevice { address: "0000:01:00.0", driver: Some("igb"), interface: Some("eth0") });
        tree.divide("0000:01:00.0", 8);
        (0..8).for_each(|number| tree.add_function_of_igb(number));
        tree
    }

    /// Adds a function, with its interface, to the port of [`PciTree::of_qemus_igb`].
    pub fn add_function_of_igb(&self, number: u32) {
        self.add_named_function_of_igb(number, &format!("eth0v{number}"));
    }

    /// Adds a function to that port whose interface has this name.
    pub fn add_named_function_of_igb(&self, number: u32, interface: &str) {
        let address = address_of_igb(number);
        self.device(&PciDevice { address: &address, driver: Some("igbvf"), interface: Some(interface) });
        self.join("0000:01:00.0", number, &address);
    }

    /// Removes a function, with its interface, from the port of [`PciTree::of_qemus_igb`].
    pub fn remove_function_of_igb(&self, number: u32) {
        fs::remove_file(self.at(&format!("class/net/eth0v{number}"))).expect("it was there");
        self.remove_function("0000:01:00.0", number, &address_of_igb(number));
    }

    /// Directory of the tree, in the place of `/sys`.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Path of a file of the tree.
    pub fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// Adds a device.
    pub fn device(&self, device: &PciDevice<'_>) {
        let folder = format!("devices/pci0000:00/{}", device.address);
        create_dir_all(self.at(&folder)).expect("a folder");
        link(&format!("../../../{folder}"), self.at("bus/pci/devices").join(device.address));
        if let Some(driver) = device.driver {
            let of_driver = self.at("bus/pci/drivers").join(driver);
            create_dir_all(&of_driver).expect("a folder");
            for file in ["bind", "unbind"] {
                write(of_driver.join(file), "").expect("a file");
            }
            link(&format!("../../../bus/pci/drivers/{driver}"), self.at(&folder).join("driver"));
        }
        if let Some(interface) = device.interface {
            self.interface(device.address, interface);
        }
    }

    /// Adds an interface to a device.
    pub fn interface(&self, address: &str, interface: &str) {
        let folder = format!("devices/pci0000:00/{address}/net/{interface}");
        create_dir_all(self.at(&folder)).expect("a folder");
        link(&format!("../../../{address}"), self.at(&folder).join("device"));
        link(&format!("../../{folder}"), self.at("class/net").join(interface));
    }

    /// Moves the interface of a device to another namespace: it disappears from the tree.
    pub fn move_away(&self, address: &str, interface: &str) {
        fs::remove_file(self.at("class/net").join(interface)).expect("it was there");
        fs::remove_dir_all(self.at("devices/pci0000:00").join(address).join("net")).expect("it was there");
    }

    /// Makes a device a port.
    pub fn divide(&self, port: &str, most: u32) {
        let folder = self.at("devices/pci0000:00").join(port);
        write(folder.join("sriov_totalvfs"), format!("{most}\n")).expect("a file");
        write(folder.join("sriov_numvfs"), "0\n").expect("a file");
    }

    /// Makes a device a function of a port.
    pub fn join(&self, port: &str, number: u32, function: &str) {
        let devices = self.at("devices/pci0000:00");
        link(&format!("../{function}"), devices.join(port).join(format!("virtfn{number}")));
        link(&format!("../{port}"), devices.join(function).join("physfn"));
        write(devices.join(port).join("sriov_numvfs"), format!("{}\n", number + 1)).expect("a file");
    }

    /// Removes the last function of a port.
    pub fn remove_function(&self, port: &str, number: u32, function: &str) {
        let devices = self.at("devices/pci0000:00");
        fs::remove_file(devices.join(port).join(format!("virtfn{number}"))).expect("it was there");
        fs::remove_file(self.at("bus/pci/devices").join(function)).expect("it was there");
        fs::remove_dir_all(devices.join(function)).expect("it was there");
    }
}

/// PCI address of a function of the port of [`PciTree::of_qemus_igb`].
pub fn address_of_igb(number: u32) -> String {
    format!("0000:01:{:02x}.{}", 0x10 + number / 4, 2 * (number % 4))
}

fn link(target: &str, at: PathBuf) {
    symlink(target, at).expect("a link");
}
