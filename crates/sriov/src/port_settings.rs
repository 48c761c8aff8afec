//! Access to the per-function settings of ports.

use std::fmt;
use std::io;

use netlink::{Function as Seen, FunctionSetting, Netlink};

/// Reads and changes the per-function settings of ports: rtnetlink does, and so does a model of a port in a test.
pub trait PortSettings: fmt::Debug + Send {
    /// Returns the functions of a port, which is known by its interface, with their settings.
    ///
    /// # Errors
    /// There is no such interface.
    fn functions(&self, port: &str) -> io::Result<Vec<Seen>>;

    /// Changes a setting of a function.
    ///
    /// # Errors
    /// There is no such interface or function, or the driver rejects the value or does not support the setting.
    fn set_function(&self, port: &str, number: u32, setting: FunctionSetting) -> io::Result<()>;
}

impl PortSettings for Netlink {
    fn functions(&self, port: &str) -> io::Result<Vec<Seen>> {
        Netlink::functions(self, port)
    }

    fn set_function(&self, port: &str, number: u32, setting: FunctionSetting) -> io::Result<()> {
        Netlink::set_function(self, port, number, setting)
    }
}
